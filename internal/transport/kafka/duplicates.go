package kafka

import "strings"

// maxOrigins is the maximum number of origins that are remembered of a partition, of some 200 bytes each.
const maxOrigins = 1 << 12

// origin identifies one run of a producer, which numbers its records of a partition.
type origin struct {
	source string
	epoch  uint64
}

// duplicates recognises records of a partition that come twice, because a producer that missed the response repeated
// them. For each origin it holds the highest sequence and the set of received ones among the 256 up to it. That is
// plenty, because the records of a partition stay nearly in order.
//
// Memory is bounded by two generations: when the young generation is full it becomes the old one, and the origins of
// the old one are forgotten unless they were used meanwhile. Forgetting an origin can only let a duplicate pass.
//
// A duplicates is not safe for concurrent use.
type duplicates struct {
	most       int
	young, old map[origin]*sequenceBits
}

// sequenceBits records the sequences that came from an origin.
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

// addIfNew records a sequence and reports whether it is new. A record with sequence 0 is not numbered and always new.
func (d *duplicates) addIfNew(o origin, sequence uint64) bool {
	if sequence == 0 {
		return true
	}
	t := d.young[o]
	if t == nil {
		t = d.promoteOrigin(o)
	}
	return t.addIfNew(sequence)
}

func (d *duplicates) promoteOrigin(o origin) *sequenceBits {
	if len(d.young) >= d.most {
		d.young, d.old = map[origin]*sequenceBits{}, d.young
	}
	t := d.old[o]
	if t == nil {
		t = &sequenceBits{}
		o.source = strings.Clone(o.source) // it is a part of its record
	}
	d.young[o] = t
	return t
}

func (b *sequenceBits) addIfNew(sequence uint64) bool {
	if sequence > b.highest {
		for back := range min(sequence-b.highest, sequenceSpan) { // they come into the span
			n := sequence - back
			b.seen[n/64%sequenceWords] &^= 1 << (n % 64)
		}
		b.highest = sequence
	}
	back := b.highest - sequence
	if back >= sequenceSpan {
		return false
	}
	word, bit := &b.seen[sequence/64%sequenceWords], uint64(1)<<(sequence%64)
	was := *word&bit != 0
	*word |= bit
	return !was
}
