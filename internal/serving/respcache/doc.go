// Package respcache is a response cache for hot keys: a shared cache by RFC 9111, in memory, before an http.Handler.
//
//	request ──> may it be answered from here at all? ──no──────────────> handler
//	              └─> fresh answer ──────────────────> served (a hit)
//	              └─> stale answer within its bounds ─> served, and fetched again in the background
//	              └─> is being fetched ──────────────> waits for the fetch, at most CachePolicy.Wait
//	              └─> nothing ───> the keys' limits ─> fetches it, for all requests that wait
//
// By Verdict.Cache the gate selects the requests that may come here. The cache charges the requests that go on to the
// handler. A response is stored under the parts of a request that the handler sees: scheme, host, target as received,
// the codings of Accept-Encoding, and the fields that responses of this target name in Vary. Requests that identify a
// user (Authorization, cookies, a certificate) bypass the cache.
//
// A request with a field that the cache does not know to be harmless bypasses it. A fetch carries the fields of the key
// and addresses, so that no client decides by its fields which response others get. A fetch that streams to a client
// also carries the client's accepted types and languages, in a normal form.
//
// One request per variant is under way at a time, in a goroutine and a context of its own, so a client that leaves ends
// nothing. Its response streams to that client as it comes. The other clients get it when it is complete, so that no
// client takes a short response for a complete one.
//
// Memory is bounded for all responses together, including responses that are not yet complete. The least recently used
// ones are evicted first. Time is an argument of everything below Cache.
package respcache
