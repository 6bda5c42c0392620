// Package tally sums requests by key and second in bounded memory and hands the sums to a Sink at every flush.
//
//	Add (any goroutine) ──> shard: lock, one look-up, n += … ┐
//	Add                 ──> shard                            ├─ swap ──> Run (one goroutine) ──> Sink
//	Add                 ──> shard                            ┘
//
// Its input is a key, its second and a number of requests. Its output is one [hotparam.Count] for each key and second
// per flush, so that a viral key costs the rest of the pipeline one count per flush and not one per request.
//
// Adding never waits for the sink: it takes a short lock that is never held over I/O, and it does not allocate once the
// tables have grown to their working size. At the limits of memory it drops (and counts) new keys while known keys
// continue to count. No loss is silent: see [Stats].
package tally
