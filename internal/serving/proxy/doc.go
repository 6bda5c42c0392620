// Package proxy is a reverse proxy with a gate in it, for services that have no
// gateway before them.
//
//	client ──> gate ──> denied: answered here
//	             └────> allowed ──> upstream of the request's class, or the usual one
//	                                   └── down: 502 or 504 as problem+json
//
// Requests of a class (crawlers) can go to an upstream of their own. Path and
// query reach the upstream byte for byte as they were judged. X-Forwarded-For,
// -Host and -Proto are set anew, or continued where a trusted proxy sent them;
// other peers' are ignored. Event streams are flushed as they come and
// WebSockets pass. Limits on the size of a request's header, and on the time a
// client may take, are the server's.
package proxy
