package main

import (
	"time"

	"github.com/hotparam/pipeline/bench/internal/counters"
	"github.com/hotparam/pipeline/hotparam/hottype"
)

// saving is the plain form of the detector's batches: one Space-Saving summary for each second (Metwally et al.,
// "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005), in which a new key takes the place of
// the lightest key. Sums over the window are gathered for the keys that are looked up; here no keys are.
type saving struct {
	slots  [windowSeconds]*counters.Summary
	second int64
}

func newSaving(size int) *saving {
	s := &saving{second: start.Unix()}
	for i := range s.slots {
		s.slots[i] = counters.NewSummary(size / windowSeconds)
	}
	return s
}

func (s *saving) add(_ time.Time, counts []hottype.Count) {
	for i := range counts {
		s.slots[counts[i].Second%windowSeconds].Add(string(counts[i].Key), int32(counts[i].N))
	}
}

func (s *saving) judge(now time.Time) {
	for ; s.second < now.Unix(); s.second++ {
		s.slots[(s.second+1)%windowSeconds].Clear()
	}
}

// error returns the sum of the lightest counts.
func (s *saving) error() (e int64) {
	for _, slot := range s.slots {
		e += int64(slot.Lightest())
	}
	return e
}
