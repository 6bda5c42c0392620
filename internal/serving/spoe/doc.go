// Package spoe answers HAProxy: it is an agent of HAProxy's stream processing offload engine, whose protocol (SPOP 2.0)
// is described in HAProxy's doc/SPOE.txt. HAProxy sends the parts of each request that its configuration names, and
// gets the verdict as variables:
//
//	in:  message "check" with the arguments method, uri, ip, headers (req.hdrs_bin), and host, if it is not the one of
//	     the headers
//	out: allowed (bool), reason, rule, key, retry_after (seconds), retry_ms, ratelimit, ratelimit_policy
//
// Frames are bounded, each connection has a bounded number of calls under way, and a peer that does not speak the
// protocol is disconnected and counted. An [Agent] reads no file and opens no port.
package spoe
