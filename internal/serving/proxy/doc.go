// Package proxy is a reverse proxy with a gate in it, for services that have no gateway before them.
//
//	client ──> gate ──> denied: answered here
//	             └────> allowed ──> upstream of the request's class, or the usual one
//	                                   └── down: 502 or 504 as problem+json
//
// Requests of a class (crawlers) can go to an upstream of their own. The proxy sends exactly the request that it
// judged: target, host and fields reach the upstream as the gate saw them, or the client gets 400. Hop-by-hop fields
// are removed before, and of upgrades only WebSocket passes. X-Forwarded-For, -Host and -Proto are replaced, or
// continued if a trusted proxy sent them. Event streams are flushed as they come. A request that holds a slot goes on
// after its client has left, until the upstream has ended its work. The server, not this package, limits the size of a
// request's header and the time that a client may take.
package proxy
