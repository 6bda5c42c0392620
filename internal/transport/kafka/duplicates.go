package kafka

import "strings"

// maxOrigins bounds the origins that are remembered of a partition, of some 200 bytes.
const maxOrigins = 1 << 12

// origin is one run of a producer, which numbers its records of a partition.
type origin struct {
	source string
	epoch  uint64
}

// duplicates recognises records of a partition that come twice, because a producer
// that missed the answer repeated them. For each origin it holds the highest
// sequence and which of the 256 up to it were there; the records of a partition
// stay nearly in order, so that is plenty.
//
// Memory is bounded in two generations: when the young one is full it becomes
// the old one, and what the old one held is forgotten unless it was used
// meanwhile. Forgetting an origin can let a duplicate pass, no more.
//
// Not safe for concurrent use.
type duplicates struct {
	most       int
	young, old map[origin]*sequenceBits
}

// sequenceBits is what came from an origin.
type sequenceBits struct {
	highest uint64
	seen    [sequenceWords]uint64 // of the last sequenceSpan, each at its number modulo that
}

const (
	sequenceWords = 4
	sequenceSpan  = 64 * sequenceWords
)

func newDuplicates(most int) *duplicates {
	return &duplicates{most: max(most/2, 1), young: map[origin]*sequenceBits{}, old: map[origin]*sequenceBits{}}
}

// first reports whether a record is new, and remembers it. Sequence 0 is no number: always new.
func (s *duplicates) first(o origin, sequence uint64) bool {
	if sequence == 0 {
		return true
	}
	t := s.young[o]
	if t == nil {
		t = s.promote(o)
	}
	return t.first(sequence)
}

func (s *duplicates) promote(o origin) *sequenceBits {
	if len(s.young) >= s.most {
		s.young, s.old = map[origin]*sequenceBits{}, s.young
	}
	t := s.old[o]
	if t == nil {
		t = &sequenceBits{}
		o.source = strings.Clone(o.source) // it is a part of its record
	}
	s.young[o] = t
	return t
}

func (t *sequenceBits) first(sequence uint64) bool {
	if sequence > t.highest {
		for back := range min(sequence-t.highest, sequenceSpan) { // they come into reach
			n := sequence - back
			t.seen[n/64%sequenceWords] &^= 1 << (n % 64)
		}
		t.highest = sequence
	}
	back := t.highest - sequence
	if back >= sequenceSpan {
		return false
	}
	word, bit := &t.seen[sequence/64%sequenceWords], uint64(1)<<(sequence%64)
	was := *word&bit != 0
	*word |= bit
	return !was
}
