package window

import "github.com/hotparam/pipeline/internal/detection/heavyhitters"

// coldFilter holds back the keys of the current second that are too light to matter, while counters are short. Most
// keys of heavy traffic are seen once, and entering all of them only to give them up again would be the greatest cost
// of such traffic. A key that is not held adds its count to a cell, which it may share with other keys, and is entered
// when the cell would overflow. So the count that a key can have left in its cell is at most the maximum of any cell,
// and that is part of the error of its second. (The idea is from Zhou et al., "Cold Filter: A Meta-Framework for Faster
// and More Accurate Stream Processing", SIGMOD 2018; here the filter opens only when needed and keeps within a promised
// error.)
type coldFilter struct {
	cells     []uint8 // in units, by hash; empty: not needed
	unit      int64   // requests; chosen by the average count
	limit     int64   // the maximum of a cell, in units
	most      int64   // the content of the fullest cell
	usedCells int     // cells that are not empty

	// Of this second, since counters were short.
	weight float64
	counts int64
	next   int64 // counts at which limit is computed again
}

const (
	// maxMeanCounts is the number of average counts that a cell may hold.
	maxMeanCounts = 2
	// unitsPerMean is the number of units of an average count, if the count is greater than that.
	unitsPerMean = 8
	// cellsPer is the number of cells for each counter.
	cellsPer = 2
	// recomputeEvery is the number of counts after which the limit is computed again.
	recomputeEvery = 256
	// maxFilteredRatio is the part of a second's requests, divided by its share of the counters, that a cell may hold:
	// the promised error, 2.2, less the maximum of purges, 1.6.
	maxFilteredRatio = 0.6
)

// filterCold takes n of a key of the current second that is not in the table. It returns false if the caller must enter
// the key.
func (c *Counter) filterCold(hash uint64, n int64) bool {
	s := &c.filter
	if s.counts >= s.next {
		s.setLimit(c.cfg.Counters, c.clock.size)
	}
	if n > s.limit*s.unit {
		return false
	}
	cell := &s.cells[heavyhitters.Bucket(hash, len(s.cells))]
	units := n
	if s.unit > 1 {
		units = (n + s.unit - 1) / s.unit
	}
	if units += int64(*cell); units > s.limit {
		return false
	}
	if *cell == 0 {
		s.usedCells++
	}
	*cell = uint8(units)
	if units > s.most {
		s.most = units
		c.slots[c.clock.pos].filtered = units * s.unit
	}
	return true
}

// setLimit computes how much a cell may hold now.
func (s *coldFilter) setLimit(counters int, seconds int64) {
	s.next = s.counts + recomputeEvery
	mean := int64(s.weight / float64(max(s.counts, 1)))
	if s.most == 0 {
		s.unit = max((mean+unitsPerMean-1)/unitsPerMean, 1)
	}
	allowed := maxFilteredRatio * s.weight * float64(seconds) / float64(counters) / float64(s.unit)
	s.limit = min(maxMeanCounts*((mean+s.unit-1)/s.unit), int64(min(allowed, 1<<8-1)))
	if s.limit > 0 && s.cells == nil {
		s.cells = make([]uint8, heavyhitters.Buckets(cellsPer*counters))
	}
}

// endSecond ends the second. The filter stays while seconds like this one would take all counters.
func (c *Counter) endSecond() {
	needed := int64(c.pairsCreated + c.filter.usedCells)
	c.pairsCreated = 0
	c.overCapacity = c.overCapacity && needed*c.clock.window > int64(c.cfg.Counters)
	if !c.overCapacity {
		c.filter = coldFilter{}
		return
	}
	if c.filter.usedCells > 0 {
		clear(c.filter.cells)
	}
	c.filter = coldFilter{cells: c.filter.cells}
}
