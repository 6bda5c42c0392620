// Package redisstore is the one room that speaks to Redis: what is written and
// what is read stand side by side, all key names on one page (keys.go), every
// byte in docs/redis.md.
//
//	aggregator ── Publisher.Publish ──> hot set ── Follow ──> mirror of each limiter
//	admin ─────── OverrideStore.Put ──> overrides ─ Follow ─> gate of each limiter
//	limiter ───── Reporter ───────────> reports ── ReadReports ──> dashboard
//	limiter ───── Limiter().Take ─────> shared limits
//
// A [Client] is opened once and shared. Nothing here needs the server to be up:
// calls fail within their timeout, followers keep what they know and catch up by
// themselves. What is followed is pushed by a notice and polled twice a second
// besides, so a lost notice costs half a second and nothing else.
//
// A large hot set travels as changes, and whole where one is missing. One process
// publishes under an id, as long as it does so more often than its lease is long;
// others with the same id stand by: see [Publisher].
//
// Scripts take the time from Redis. The package works on one server, behind TLS,
// on a unix socket and on a cluster: all keys of a namespace carry one hash tag.
package redisstore
