// Package window counts keys over a trailing window of seconds, exactly and in
// bounded memory.
//
// A [Counter] is told what second it is ([Counter.Advance]) and takes counts
// that carry their own second ([Counter.Add]). The sum of a key is over the
// seconds now-Window+1 … now. What is too old or too far ahead is refused and
// said so, and a new key beyond MaxKeys is refused rather than let another
// key's sum go wrong: a sum is exact or absent.
//
// How it is kept. The seconds are slots of one second. A key that was seen in
// one second only, as nearly all of a flood of random values are, is 48 bytes
// beside its name; a key seen in a second one gets a ring of slots. Keys live
// in many small shards, each an open-addressed index into a flat slab, so that
// growing, shrinking and expiring move a thousand keys at a time and never
// all. Nothing is done per key when a second turns: a key's ring is rolled
// forward when it is next looked at, and idle keys are swept out shard by
// shard, in half a window, by the calls that come anyway.
//
// Cost: Add is one hash and one probe whatever the weight, and allocates
// nothing for a key that has its ring. Memory is at most about MaxKeys times
// (80 bytes, the name, and 512 bytes where it needs a ring), and is given back
// within one and a half windows of the last count.
//
// An approximate counter (a ring of per-slot Space-Saving summaries) can stand
// in behind the same few methods: its sums would be lower bounds.
//
// The room is pure: time is an argument. A Counter is not for concurrent use.
package window
