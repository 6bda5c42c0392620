// Package heavyhitters holds keys and their counts in bounded memory with a known error.
//
// A [Table] stores keys: an index of open addressing into a flat slab, with the bytes of all keys in one piece of
// memory. There is no pointer per key, so the garbage collector has nothing to follow, and nothing is allocated once a
// table has the size that its traffic needs.
//
// A [Summary] counts keys without time: exactly until it is full, and then within an error that it knows. It is Misra
// and Gries' algorithm in batches, which is Space-Saving seen from the other side (Agarwal et al., "Mergeable
// Summaries", PODS 2012) and has its bound, but pays for evictions by the thousand and not one by one (Anderson et al.,
// "A High-Performance Algorithm for Identifying Frequent Items in Data Streams", IMC 2017): when no counter is left,
// the lower part of all counters is given up (here a half, in package window a third), and the count of the largest of
// these is the offset, the maximum that a key which is not held may have had. [Histogram] finds that part in one pass.
//
// Hashes are the caller's, 64 bits that no client can predict: a seed for each process. Keys are compared byte by byte,
// so equal hashes cost time and never a wrong count.
//
// The package is pure. Nothing in it is for concurrent use.
package heavyhitters

import (
	"math"
	"math/bits"
	"unsafe"
)

// bytesPerKey is the average number of bytes that a key may have.
const bytesPerKey = 64

// Summary counts keys in bounded memory. Of each key it knows a lower and an upper bound, at most Error apart. It is
// exact until it was full once. Not for concurrent use.
type Summary struct {
	table  *Table[counter]
	offset int64   // the maximum that a key which is not held may have
	moved  []int32 // for Retain
}

// counter holds the count of a key since it was entered, and the maximum that it may have had before.
type counter struct{ n, err int64 }

// New returns a summary with a number of counters. Their keys may have 64 bytes on average; longer keys use up the room
// of several.
func New(counters int) *Summary {
	counters = max(counters, 2)
	return &Summary{table: NewTable[counter](counters, max(counters*bytesPerKey, 1<<16))}
}

// Add counts n of a key, n above 0. It returns false for a key that would fill a quarter of the memory, which is not
// counted.
func (s *Summary) Add(hash uint64, key string, n int64) bool {
	if len(key) > s.table.maxBytes/4 {
		return false
	}
	i := s.table.Find(hash, key)
	for i < 0 {
		if i = s.table.Insert(hash, key); i < 0 {
			s.purgeLight()
			continue
		}
		s.table.At(i).err = s.offset
	}
	s.table.At(i).n += n
	return true
}

func (s *Summary) purgeLight() {
	var sizes Histogram
	for i := range s.table.Len() {
		v := s.table.At(i)
		sizes.Add(v.n + v.err - s.offset)
	}
	s.offset += sizes.Median()
	s.retainKeys(func(_ int, v *counter) bool { return v.n+v.err > s.offset })
}

func (s *Summary) retainKeys(keep func(int, *counter) bool) {
	if len(s.moved) < s.table.Len() {
		s.moved = make([]int32, s.table.Len())
	}
	s.table.Retain(keep, s.moved)
}

// Bounds returns the lower and the upper bound of a key's count.
func (s *Summary) Bounds(hash uint64, key string) (lower, upper int64) {
	i := s.table.Find(hash, key)
	if i < 0 {
		return 0, s.offset
	}
	v := s.table.At(i)
	return v.n, v.n + v.err
}

// Decay multiplies all counts by a factor between 0 and 1 and forgets the keys whose count becomes 0. It adds the
// counts that rounding loses to the errors.
func (s *Summary) Decay(factor float64) {
	up := func(n int64) int64 { return int64(math.Ceil(float64(n) * factor)) }
	s.offset = up(s.offset)
	lost := int64(0) // the maximum of the forgotten keys, whose count is below one
	s.retainKeys(func(_ int, v *counter) bool {
		v.n, v.err = int64(float64(v.n)*factor), up(v.err)+1
		if v.n > 0 {
			return true
		}
		lost = max(lost, v.err)
		return false
	})
	s.offset = max(s.offset, lost)
}

// Error returns the maximum distance between the bounds of a key.
func (s *Summary) Error() int64 {
	most := s.offset
	for i := range s.table.Len() {
		most = max(most, s.table.At(i).err)
	}
	return most
}

func (s *Summary) Len() int { return s.table.Len() }

func (s *Summary) Bytes() int { return s.table.Bytes() + 4*cap(s.moved) }

// mantissaBits is the number of leading bits, after the first, that distinguish levels: the greatest number of a level
// is at most 1/16 above its least number, and each number below 32 has a level of its own.
const mantissaBits = 4

// Histogram counts numbers by their size, to find a quantile in one pass and without sorting. The zero value is ready.
type Histogram struct {
	counts [64 << mantissaBits]int32
	total  int
}

// Add counts a number above 0; a smaller number counts as 1.
func (l *Histogram) Add(n int64) {
	l.counts[levelOf(n)]++
	l.total++
}

// Median returns an upper bound of at least half of all numbers, which is at most 1/16 above the least such bound, or 0
// without numbers. LowerThird returns the same for a third.
func (l *Histogram) Median() int64     { return l.quantileAt(2) }
func (l *Histogram) LowerThird() int64 { return l.quantileAt(3) }

func (l *Histogram) quantileAt(parts int) int64 {
	seen := 0
	for i, n := range l.counts {
		if seen += int(n); n > 0 && parts*seen >= l.total {
			return levelTop(i)
		}
	}
	return 0
}

// levelOf returns the level of a number. Numbers below 1<<(mantissaBits+1) have their own.
func levelOf(n int64) int {
	u := uint64(max(n, 1))
	drop := max(bits.Len64(u)-mantissaBits-1, 0)
	return drop<<mantissaBits + int(u>>drop)
}

func levelTop(level int) int64 {
	drop := max(level>>mantissaBits-1, 0)
	return int64(uint64(level-drop<<mantissaBits+1)<<drop - 1)
}

func cellSize[V any]() int { return int(unsafe.Sizeof(cell[V]{})) }
