// Window compares the cost of detection for an aggregator: hotparam's detector (bounded counts of a trailing window,
// with a known error) beside the sliding-window HeavyKeeper of github.com/keilerkonzept/topk (approximate, a fixed
// number of buckets, top 1000), and beside plain Space-Saving, one summary for each second with the same number of
// counters, which only counts and judges nothing.
//
//	go run ./window [-rounds 5] [-updates 1500000]
//
// All keep a window of 5 s over a second of 250,000 updates, get them in batches of 1000 and are judged ten times in a
// second. Keys of the large sets are seldom in the processor's caches for any contender: "only hashing the key" is the
// cost of that alone. The figures compared are updates for each second of CPU time of the whole process, the collector
// included. "error" is the contender's own bound, at the end, on how much its counts may be too low or too high; the
// sketch has no such bound.
//
// The second table is one run: ten million different keys in ten seconds and among them five hot keys, from the
// beginning or from the fourth second on, when the counters are taken already.
package main
