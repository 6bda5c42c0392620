// Package respcache is a response cache for hot keys: a shared cache by RFC 9111, in
// memory, before an http.Handler.
//
//	request ──> may it be answered from here at all? ──no──────────────> handler
//	              └─> fresh answer ──────────────────> served (a hit)
//	              └─> stale answer within its bounds ─> served, and fetched again behind it
//	              └─> is being fetched ──────────────> waits for that, at most CachePolicy.Wait
//	              └─> nothing ───> the keys' limits ─> fetches it, for all who wait
//
// The gate says by Verdict.Cache which requests may come here; the cache charges what goes
// on to the handler. An answer is stored under what the handler sees of a request: scheme,
// host, target as received, the codings of Accept-Encoding, and the fields that answers of this target name in Vary.
// Requests that identify a user (Authorization, cookies, a certificate) bypass the cache.
//
// A request that comes with a field of which the cache does not know that it is harmless bypasses
// it. A fetch carries the fields of the key and addresses, so that no client decides by its fields what
// others get; one that streams to a client also carries what that client accepts, in a normal form.
//
// One request per variant is under way at a time, in a goroutine and a context of its own:
// a client that leaves ends nothing. Its answer streams to that client as it comes, and the
// others get it when it is complete, so that no client takes a short response for a complete one.
//
// Memory is bounded for all answers together, those on their way included; the least
// recently used ones go first. Time is an argument of everything below Cache.
package respcache
