// Package statsd writes counts as StatsD counters and reads them back: one
// line "{prefix}.{resource}.hot_param.{component}:{n}|c" for each key. The
// names are package canon's, the wire is described in docs/protocol.md.
//
//	tally ──> Sender ──> datagrams of up to 1432 bytes ──> Listener ──> Handle
//	                     UDP, or a unix socket
//
// [Sender] is a sink for package tally. Several servers share the keys, each
// with a queue and a goroutine of its own:
//
//	Send ──> rendezvous: whose name is it? ──> serverQueue ──> packer ──> link
//	            └──> queue ──> …          │ paced   │ full     │ opened, resolved
//	                                      │         │ datagrams│ anew, refused
//
// Sending waits for no server. A server that is absent, takes nothing, or whose
// name does not resolve costs its own share of the counts and bounded memory.
// [Listener] takes lines from anybody, in datagrams and by connections. What is
// not a counter or set of ours is ignored, or goes on to another server as it
// is; what is broken is counted, nothing is trusted:
//
//	socket ──> burst ────────────┐
//	connection ──> splitter ─────┴> reader ──> sums ──> Handle
//	                                   └──> outbox ──> forwarder ──> link
//
// StatsD carries no time and no sender. Counts are placed by the second in
// which they arrive, unless a line says its own, and a lost datagram is lost:
// that is the bargain. Package kafka makes a better one.
package statsd
