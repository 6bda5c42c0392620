// Package window counts keys over a trailing window of seconds, in bounded
// memory and with a known error.
//
// A [Counter] gets the current second ([Counter.Advance]) and takes counts
// that carry their own second ([Counter.Add]). The sum of a key is over the
// seconds now-Window+1 … now. It is exact until all counters are taken, and
// from then on a lower bound: the truth is at most [Counter.Error] above it.
// That error lasts as long as the seconds in which it arose: one window after a
// flood all sums are exact again, and the memory of the flood is given back.
//
// # How it is kept
//
// Each second is a Misra-Gries summary (package heavyhitters says more of those): a
// list of pairs of key and count, and an offset, the most that a key without a
// pair may have had in that second. All seconds draw on one store of counters,
// so a quiet second leaves its room to a busy one, and all share one table of
// keys, in which each key has its sum over the window. So an Add is one look-up,
// whatever the window and the weight; a sum is known at every moment and not
// gathered from slots; and a key that is seen in every second is stored once.
//
//	table   key ─ sum, count of this second          one look-up an Add
//	slots   [pairs|offset] [pairs|offset] … one for each second
//	                └─ key, n: taken from the sum when the second leaves
//
// When the counters are all taken, the second that has most of them gives up
// its lower third (those with the smallest n plus what they may have had before),
// and its offset rises to the greatest of these: they are taken from the sums of
// their keys. At least two thirds of its pairs pay for this with their own
// count, so the offset of a second with N requests that holds m counters is at
// most 1.6 N/m, whatever anybody sends.
//
// While counters are short, keys of the current second that are not held go
// through a cold filter first: an array of bytes by hash, in which a count only adds
// to its cell, and enters the table when the cell would exceed about two average
// counts. So the many keys that come once cost one byte that is near, and not a
// place in the table, a pair and their eviction. What a cell can hold is at most
// 0.6 N/m; so a second is never wrong by more than 2.2 N/m. The cold filter opens only
// in seconds that have used their share, and closes with the traffic that it
// was for, so one window later all is exact again. A second that ends with more
// than its share then gives up its lower third at once, which keeps what is
// looked at all the time small.
//
// Sampling would be cheaper to describe and worse: nothing here depends on
// chance but the hash, whose seed is the process' own.
//
// Slots are whole seconds and not finer: a second is all that a count says of
// its time. Finer slots could only be filled by when counts arrive, and then a
// backlog or a slow sender would make keys hot. What fine slots are wanted for
// is had otherwise: a crossing is reported by the Add that makes it, and a steady
// rate comes from weighing the second that left last ([Watched]).
//
// A watch ([Counter.Watch]) is an eye on one key: a handle for its sum and the
// count of the second that left last. Its key is held as long as the watch
// lasts, so after one window its sum is exact again unless light counts of it
// were given up.
//
// Cost: an Add is one probe, and allocates nothing once the tables have the size
// that the traffic needs. A turn of the second is one step for each pair of the
// two seconds concerned. Memory is at most about 200 bytes a counter.
//
// The package is pure: time is an argument. A Counter is not for concurrent use.
package window
