package heavyhitters

import (
	"math/bits"
	"unsafe"
)

// finest is how many bits of a number tell levels apart: the greatest number of
// a level is at most 1/16 above its least one, and up to 32 each number has a
// level of its own.
const finest = 4

// Histogram counts numbers by their size, to find a quantile in one pass and
// without sorting. The zero value is ready.
type Histogram struct {
	counts [64 << finest]int32
	total  int
}

// Add notes a number above 0; less is taken as 1.
func (l *Histogram) Add(n int64) {
	l.counts[level(n)]++
	l.total++
}

// Median gives a number that at least half of all are not above, and that is at
// most 1/16 above the least such number; 0 of none. LowerThird is the same for a
// third.
func (l *Histogram) Median() int64     { return l.part(2) }
func (l *Histogram) LowerThird() int64 { return l.part(3) }

func (l *Histogram) part(parts int) int64 {
	seen := 0
	for i, n := range l.counts {
		if seen += int(n); n > 0 && parts*seen >= l.total {
			return top(i)
		}
	}
	return 0
}

// level is the level of a number: numbers below 1<<(finest+1) have their own.
func level(n int64) int {
	u := uint64(max(n, 1))
	drop := max(bits.Len64(u)-finest-1, 0)
	return drop<<finest + int(u>>drop)
}

// top is the greatest number of a level.
func top(level int) int64 {
	drop := max(level>>finest-1, 0)
	return int64(uint64(level-drop<<finest+1)<<drop - 1)
}

func cellSize[V any]() int { return int(unsafe.Sizeof(cell[V]{})) }
