package window

import (
	"slices"
	"unsafe"

	"github.com/hotparam/pipeline/internal/detection/heavyhitters"
)

type slot struct {
	pairs []pair
	// offset is the maximum that a key which was given up may have had here.
	offset int64
	// filtered is the maximum that a key which the cold filter held back may have had here.
	filtered int64
	// most is the number of pairs before the last purge.
	most int
	// mixed is true if a key may have more than one pair.
	mixed bool
}

// maxMissed returns the maximum that a key without a pair may have had here: its count when it was given up last, and
// the count that the cold filter has held back since.
func (s *slot) maxMissed() int64 { return s.offset + s.filtered }

// pair is a key in one second: a counter.
type pair struct {
	n     int64 // 0 in the current second, in which the key's cur holds it
	err   int64 // the slot's offset when the pair was made
	place uint32
}

const pairSize = int(unsafe.Sizeof(pair{}))

// makeRoom frees counters: it joins pairs of the same key, and if that is not enough, purges the fullest seconds.
func (c *Counter) makeRoom() {
	for i := range c.slots {
		if c.slots[i].mixed {
			c.joinPairs(int64(i))
		}
	}
	if 8*c.pairs <= 7*c.cfg.Counters {
		return
	}
	c.overCapacity = true
	for c.pairs >= c.cfg.Counters {
		c.purgeSlot(c.fullestSlot())
	}
}

func (c *Counter) fullestSlot() (full int64) {
	for i := range c.slots {
		if len(c.slots[i].pairs) > len(c.slots[full].pairs) {
			full = int64(i)
		}
	}
	return full
}

// joinPairs joins the pairs of a slot that belong to the same key.
func (c *Counter) joinPairs(i int64) {
	s := &c.slots[i]
	first := c.zeroedScratch()
	kept := s.pairs[:0]
	for _, p := range s.pairs {
		if at := first[p.place]; at > 0 {
			kept[at-1].n += p.n // the first pair has the least error
			c.table.At(int(p.place)).pairs--
			c.pairs--
			continue
		}
		kept = append(kept, p)
		first[p.place] = int32(len(kept))
	}
	for _, p := range kept {
		first[p.place] = 0
	}
	s.pairs, s.mixed = kept, false
}

// zeroedScratch returns a slice with a 0 for each place. The caller must leave it so.
func (c *Counter) zeroedScratch() []int32 {
	if len(c.scratch) < c.table.Len() {
		c.scratch = make([]int32, c.table.Len()+c.table.Len()/4)
	}
	return c.scratch
}

// purgeSlot gives up the lower third of a slot's pairs, and the memory that they leave empty.
func (c *Counter) purgeSlot(i int64) {
	c.evictThird(i)
	s := &c.slots[i]
	if i != c.clock.pos && 3*len(s.pairs)+3072 < 2*cap(s.pairs) { // a second that has ended needs no more
		s.pairs = slices.Clone(s.pairs)
	}
}

// evictThird gives up the lower third of a slot's pairs. The new offset is the count of the greatest of them, with the
// count that it may have had before it was held.
func (c *Counter) evictThird(i int64) {
	s := &c.slots[i]
	if s.mixed {
		c.joinPairs(i)
	}
	s.most = max(s.most, len(s.pairs))
	current := i == c.clock.pos
	var sizes heavyhitters.Histogram
	for k := range s.pairs {
		sizes.Add(c.pairCount(&s.pairs[k], current) + s.pairs[k].err - s.offset)
	}
	s.offset += sizes.LowerThird()
	kept := s.pairs[:0]
	for _, p := range s.pairs {
		if n := c.pairCount(&p, current); n+p.err > s.offset {
			kept = append(kept, p)
		} else {
			c.evictPair(&p, n, c.isCounted(i))
		}
	}
	s.pairs = kept
}

func (c *Counter) pairCount(p *pair, current bool) int64 {
	if current {
		return c.table.At(int(p.place)).cur
	}
	return p.n
}

// isCounted reports whether the sums include a slot already.
func (c *Counter) isCounted(slot int64) bool {
	ahead := slot - c.clock.pos
	if ahead < 0 {
		ahead += c.clock.size
	}
	return ahead == 0 || ahead > c.clock.newestSecond()-c.clock.now
}

func (c *Counter) evictPair(p *pair, n int64, counted bool) {
	v := c.table.At(int(p.place))
	if counted {
		v.sum -= n
	}
	if p.n == 0 {
		v.cur = 0
	}
	if v.watch > 0 {
		c.watches[v.watch-1].since = c.clock.newestSecond()
	}
	c.given++
	c.releasePair(v)
}

func (c *Counter) releasePair(v *sums) {
	c.pairs--
	if v.pairs--; v.pairs == 0 && v.watch == 0 {
		c.idle++
	}
}

func (c *Counter) compactTable() {
	moved := c.zeroedScratch()
	c.table.Retain(func(_ int, v *sums) bool { return v.pairs > 0 || v.watch > 0 }, moved)
	for i := range c.slots {
		for k := range c.slots[i].pairs {
			p := &c.slots[i].pairs[k]
			p.place = uint32(moved[p.place])
		}
	}
	for i := range c.watches {
		if w := &c.watches[i]; w.place >= 0 {
			w.place = moved[w.place]
		}
	}
	c.idle = 0
	if 8*c.table.Len() < len(moved) {
		c.scratch = nil
		return
	}
	clear(moved)
}
