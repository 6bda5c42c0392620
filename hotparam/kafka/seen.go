package kafka

import (
	"strings"
	"sync"
)

// maxSeen bounds the origins that are remembered, some 150 bytes each.
const maxSeen = 1 << 14

// origin is where records are numbered: one run of a producer, one partition.
type origin struct {
	source    string
	epoch     uint64
	partition int32
}

// seen recognises records that come twice: repeated by a producer that missed
// the answer, or read again after a rebalance. For each origin it holds the
// highest sequence and which of the 64 up to it were there; records of a
// partition stay in order, so that is plenty.
//
// Memory is bounded in two generations: when the young one is full it becomes
// the old one, and what the old one held is forgotten unless it was used
// meanwhile. Forgetting an origin can let a duplicate pass, no more.
//
// Safe for concurrent use.
type seen struct {
	most int

	mu         sync.Mutex // guards the rest
	young, old map[origin]*trail
}

// trail is what came from an origin.
type trail struct {
	highest uint64
	recent  uint64 // bit i: highest-i was there
}

func newSeen(most int) *seen {
	return &seen{most: max(most/2, 1), young: map[origin]*trail{}, old: map[origin]*trail{}}
}

// first reports whether a record comes for the first time, and remembers it.
func (s *seen) first(o origin, sequence uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.young[o]
	if t == nil {
		t = s.promote(o)
	}
	return t.first(sequence)
}

func (s *seen) promote(o origin) *trail {
	if len(s.young) >= s.most {
		s.young, s.old = map[origin]*trail{}, s.young
	}
	t := s.old[o]
	if t == nil {
		t = &trail{}
		o.source = strings.Clone(o.source) // it is a part of its record
	}
	s.young[o] = t
	return t
}

func (t *trail) first(sequence uint64) bool {
	if sequence > t.highest {
		if ahead := sequence - t.highest; ahead < 64 {
			t.recent = t.recent<<ahead | 1
		} else {
			t.recent = 1
		}
		t.highest = sequence
		return true
	}
	back := t.highest - sequence
	if back >= 64 {
		return false
	}
	bit := uint64(1) << back
	was := t.recent&bit != 0
	t.recent |= bit
	return !was
}
