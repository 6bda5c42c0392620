// Package tally sums requests by key and second in bounded memory and hands
// the sums to a Sink at every flush.
//
//	Add (any goroutine) ──> shard: lock, one look-up, n += … ┐
//	Add                 ──> shard                            ├─ swap ──> Run (one goroutine) ──> Sink
//	Add                 ──> shard                            ┘
//
// What enters is a key, its second and how often; what leaves is one
// [hotparam.Count] for each key and second per flush, so a viral key costs the
// rest of the pipeline one count per flush and not one per request.
//
// Adding never waits for the sink: it takes a short lock that is never held
// over I/O, allocates nothing once the tables have grown to their working
// size, and at the limits of memory drops (and counts) what is new while what
// is known keeps counting. Nothing is lost silently: see [Stats].
package tally
