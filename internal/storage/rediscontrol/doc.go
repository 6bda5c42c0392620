// Package rediscontrol is what the processes of a namespace tell each other through
// Redis: which keys are hot, which overrides hold, what each limiter decided. What is
// written and what is read stand side by side, every byte in docs/redis.md.
//
//	aggregator ── Publisher.Publish ──> hot set ── Follow ──> replica of each limiter
//	admin ─────── OverrideStore.Put ──> overrides ─ Follow ─> gate of each limiter
//	limiter ───── Reporter ───────────> reports ── ReadReports ──> dashboard
//
// Nothing here needs the server to be up: calls fail within their timeout, followers
// keep what they know and catch up by themselves. What is followed is pushed by a
// notice and polled twice a second besides, so a lost notice costs half a second and
// nothing else.
//
// A large hot set travels as changes, and whole where one is missing. One process
// publishes under an id, as long as it does so more often than its lease is long;
// others with the same id stand by: see [Publisher].
package rediscontrol
