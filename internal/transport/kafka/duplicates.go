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
	recent  [sequenceWords]uint64 // bit i: highest-i was there
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
		t.shift(sequence - t.highest)
		t.highest = sequence
	}
	back := t.highest - sequence
	if back >= sequenceSpan {
		return false
	}
	word, bit := &t.recent[back/64], uint64(1)<<(back%64)
	was := *word&bit != 0
	*word |= bit
	return !was
}

// shift makes room for a highest that is n higher.
func (t *sequenceBits) shift(n uint64) {
	if n >= sequenceSpan {
		t.recent = [sequenceWords]uint64{}
		return
	}
	words, bits := int(n/64), n%64
	for i := sequenceWords - 1; i >= 0; i-- {
		var w uint64
		if i >= words {
			w = t.recent[i-words] << bits
		}
		if i > words {
			w |= t.recent[i-words-1] >> (64 - bits) // none of it where bits is 0
		}
		t.recent[i] = w
	}
}
