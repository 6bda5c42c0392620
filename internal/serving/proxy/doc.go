// Package proxy is a reverse proxy with a gate in it, for services that have no
// gateway before them.
//
//	client ──> gate ──> denied: answered here
//	             └────> allowed ──> upstream of the request's class, or the usual one
//	                                   └── down: 502 or 504 as problem+json
//
// Requests of a class (crawlers) can go to an upstream of their own. What is
// judged is what is sent: target, host and fields reach the upstream as the gate
// saw them, or the client gets 400. Hop-by-hop fields are removed before, and of
// upgrades only WebSocket passes. X-Forwarded-For, -Host and -Proto are set anew,
// or continued where a trusted proxy sent them. Event streams are flushed as they
// come. A request that holds a slot goes on after its client has left, until the
// upstream has ended its work. Limits on the size of a request's header, and on
// the time a client may take, are the server's.
package proxy
