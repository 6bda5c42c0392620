// Package window counts keys over a trailing window of seconds, in bounded memory and with a known error.
//
// A [Counter] takes the current second ([Counter.Advance]) and counts that carry their own second ([Counter.Add]). The
// sum of a key is over the seconds now-Window+1 … now. It is exact until all counters are taken, and from then on a
// lower bound: the truth is at most [Counter.Error] above it. The error lasts as long as the seconds in which it arose:
// one window after a flood all sums are exact again, and the memory of the flood is released.
//
// # How it is kept
//
// Each second is a Misra-Gries summary (package heavyhitters describes them): a list of pairs of key and count, and an
// offset, the maximum that a key without a pair may have had in that second. All seconds share one store of counters,
// so a quiet second leaves its room to a busy one, and one table of keys, in which each key has its sum over the
// window. So an Add is one look-up, for any window and weight; a sum is known at every moment and not gathered from
// slots; and a key that is seen in every second is stored once.
//
//	table   key ─ sum, count of this second          one look-up an Add
//	slots   [pairs|offset] [pairs|offset] … one for each second
//	                └─ key, n: taken from the sum when the second leaves
//
// When all counters are taken, the second that has most of them gives up its lower third (the pairs with the smallest n
// plus what their keys may have had before), and its offset rises to the greatest of these. The pairs are taken from
// the sums of their keys. At least two thirds of the second's pairs pay for this with their own count, so the offset of
// a second with N requests that holds m counters is at most 1.6 N/m, for any input.
//
// While counters are short, keys of the current second that are not held go through a cold filter first: an array of
// bytes by hash. A count of such a key only adds to its cell, until the cell would exceed about two average counts;
// then the key enters the table. So the many keys that come once cost one byte that is near, and not a place in the
// table, a pair and their eviction. A cell can hold at most 0.6 N/m, so a second is never wrong by more than 2.2 N/m.
// The cold filter opens only in seconds that have used their share, and closes with the traffic that it was for, so one
// window later all is exact again. A second that ends with more than its share then gives up its lower third at once,
// which keeps the memory in constant use small.
//
// Sampling would be cheaper to describe, but worse: nothing here depends on chance but the hash, whose seed is the
// process' own.
//
// Slots are whole seconds and not finer, because a count carries only its second. Finer slots could only be filled by
// the time of arrival, and then a backlog or a slow sender would make keys hot. The purposes of fine slots are served
// otherwise: the Add that crosses a threshold reports the crossing, and a steady rate comes from weighing the second
// that left last ([Watched]).
//
// A watch ([Counter.Watch]) follows one key: a handle for its sum and the count of the second that left last. Its key
// is held as long as the watch lasts, so after one window its sum is exact again unless light counts of it were given
// up.
//
// Cost: an Add is one probe, and allocates nothing once the tables have the size that the traffic needs. When a second
// ends, each pair of that second and of the second that leaves costs one step. Memory is at most about 200 bytes a
// counter.
//
// The package is pure: time is an argument. A Counter is not for concurrent use.
package window
