// Window compares what judging heat costs an aggregator: hotparam's detector
// (exact counts of a trailing window, a cap on the number of keys) beside the
// sliding-window HeavyKeeper of github.com/keilerkonzept/topk (approximate, a
// fixed number of buckets, top 1000).
//
//	go run ./window [-rounds 5] [-updates 1500000]
//
// Both keep a window of 5 s over a second of 250,000 updates and are judged ten
// times in it. Keys of the large sets are seldom in the processor's caches, for
// anybody: "only hashing the key" is what that alone costs. What is compared is updates for each second of CPU time, of the
// whole process, the collector included. "refused" are new keys beyond the cap,
// which are dropped and counted; the sketch has no cap and no exact count.
//
// The second table is one run: ten million different keys in ten seconds and
// among them five hot ones, from the beginning or from the fourth second on,
// when the table of keys is full already.
package main
