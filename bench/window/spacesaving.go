package main

import (
	"container/heap"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// saving is the plain form of the detector's batches: one Space-Saving summary for each second (Metwally et al.,
// "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005), in which a new key takes the place of
// the lightest key. Sums over the window are gathered for the keys that are looked up; here no keys are.
type saving struct {
	slots  [windowSeconds]*summary
	second int64
}

func newSaving(counters int) *saving {
	s := &saving{second: start.Unix()}
	for i := range s.slots {
		s.slots[i] = &summary{size: counters / windowSeconds, places: map[string]*spot{}}
	}
	return s
}

func (s *saving) add(_ time.Time, counts []hottype.Count) {
	for i := range counts {
		s.slots[counts[i].Second%windowSeconds].add(string(counts[i].Key), counts[i].N)
	}
}

func (s *saving) judge(now time.Time) {
	for ; s.second < now.Unix(); s.second++ {
		next := s.slots[(s.second+1)%windowSeconds]
		clear(next.places)
		next.spots = next.spots[:0]
	}
}

// error returns the sum of the smallest counters of the full summaries.
func (s *saving) error() (e int64) {
	for _, slot := range s.slots {
		if len(slot.spots) == slot.size {
			e += slot.spots[0].n
		}
	}
	return e
}

// summary is one Space-Saving summary, with its counters in a heap.
type summary struct {
	size   int
	places map[string]*spot
	spots  []*spot
}

type spot struct {
	key    string
	n, err int64
	at     int
}

func (s *summary) add(key string, n int64) {
	p := s.places[key]
	switch {
	case p != nil:
		p.n += n
		heap.Fix(s, p.at)
	case len(s.spots) < s.size:
		p = &spot{key: key, n: n}
		s.places[key] = p
		heap.Push(s, p)
	default:
		p = s.spots[0]
		delete(s.places, p.key)
		p.key, p.err, p.n = key, p.n, p.n+n
		s.places[key] = p
		heap.Fix(s, 0)
	}
}

func (s *summary) Len() int           { return len(s.spots) }
func (s *summary) Less(i, j int) bool { return s.spots[i].n < s.spots[j].n }
func (s *summary) Swap(i, j int) {
	s.spots[i], s.spots[j] = s.spots[j], s.spots[i]
	s.spots[i].at, s.spots[j].at = i, j
}
func (s *summary) Push(x any) {
	p := x.(*spot)
	p.at = len(s.spots)
	s.spots = append(s.spots, p)
}
func (s *summary) Pop() any { panic("nothing is ever popped") }
