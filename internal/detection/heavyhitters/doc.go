// Package heavyhitters holds keys and their counts in bounded memory and knows how
// wrong it can be.
//
// A [Table] is the room that keys live in: an index of open addressing into a
// flat slab, with the bytes of all keys in one piece of memory. There is no
// pointer per key, so the garbage collector has nothing to follow, and nothing
// is allocated once a table has the size that its traffic needs.
//
// A [Summary] counts keys without time: exactly until it is full, and then
// within an error that it states. What it does is Misra and Gries' algorithm
// in batches, which is Space-Saving seen from the other side (Agarwal et al.,
// "Mergeable Summaries", PODS 2012) and has its bound, but pays for evictions
// by the thousand and not one by one (Anderson et al., "A High-Performance
// Algorithm for Identifying Frequent Items in Data Streams", IMC 2017): when
// no counter is left, the lower part of all counters is given up (here a half,
// in package window a third), and what the largest of these had is the offset, the most that any key which is not held
// may have had. [Histogram] finds that part in one pass.
//
// Hashes are the caller's, 64 bits that no client can predict: a seed for
// each process. Keys are compared byte by byte, so equal hashes cost time and
// never a wrong count.
//
// The package is pure. Nothing in it is for concurrent use.
package heavyhitters
