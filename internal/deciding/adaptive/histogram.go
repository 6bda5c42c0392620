package adaptive

import (
	"math"
	"math/bits"
	"time"
)

const (
	// subBits is the number of bits after the leading one that a bucket keeps, so that a bucket's width is at most a
	// sixteenth of its values.
	subBits = 4
	// maxBits bounds the durations: 2^27 µs, two minutes.
	maxBits = 27
	buckets = (maxBits - subBits + 1) << subBits
)

// Histogram counts durations in log-linear buckets, as HdrHistogram does: 16 for each doubling. The
// zero value is empty. It is not for concurrent use.
type Histogram struct {
	counts [buckets]uint32
	n      uint64
	sum    time.Duration
}

// Add counts a duration; negative ones count as 0.
func (h *Histogram) Add(d time.Duration) { h.addN(d, 1) }

func (h *Histogram) addN(d time.Duration, n int64) {
	d = max(d, 0)
	h.counts[bucketOf(d)] += uint32(n)
	h.n += uint64(n)
	h.sum += d * time.Duration(n)
}

// Merge adds the durations of another histogram.
func (h *Histogram) Merge(from *Histogram) {
	for i, n := range from.counts {
		h.counts[i] += n
	}
	h.n += from.n
	h.sum += from.sum
}

// Count returns the number of counted durations.
func (h *Histogram) Count() uint64 { return h.n }

// Mean returns the exact mean, or 0 if nothing was counted.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// Quantile returns the middle of the bucket in which the q-th part of all durations ends, 0 < q <= 1, or 0 if nothing
// was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	want, seen := q*float64(h.n), uint64(0)
	for i, n := range h.counts {
		if seen += uint64(n); n > 0 && float64(seen) >= want {
			return bucketMiddle(i)
		}
	}
	return 0
}

func bucketOf(d time.Duration) int {
	us := min(uint64(d/time.Microsecond), 1<<maxBits-1)
	shift := max(bits.Len64(us)-subBits-1, 0)
	return shift<<subBits + int(us>>shift)
}

func bucketMiddle(i int) time.Duration {
	if i < 2<<subBits {
		return time.Duration(i) * time.Microsecond
	}
	shift := i>>subBits - 1
	low := uint64(i-shift<<subBits) << shift
	return time.Duration(low+uint64(1)<<shift/2) * time.Microsecond
}

// Pairs returns the index and the count of each bucket that is not empty, one after the other.
func (h *Histogram) Pairs() []int64 {
	var pairs []int64
	for i, n := range h.counts {
		if n > 0 {
			pairs = append(pairs, int64(i), int64(n))
		}
	}
	return pairs
}

// MergePairs adds the result of another histogram's Pairs, and the sum of its durations. It ignores invalid pairs.
func (h *Histogram) MergePairs(pairs []int64, sum time.Duration) {
	for i := 0; i+1 < len(pairs); i += 2 {
		bucket, n := pairs[i], pairs[i+1]
		if bucket < 0 || bucket >= buckets || n <= 0 || n > math.MaxInt32 {
			continue
		}
		h.counts[bucket] += uint32(n)
		h.n += uint64(n)
	}
	h.sum += max(sum, 0)
}
