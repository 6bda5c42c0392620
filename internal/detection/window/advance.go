package window

import "slices"

// Advance makes second the current one, going through the seconds between. It calls left, unless nil, with the place
// and the count of every key whose oldest second leaves the window. A second before the current one changes nothing:
// the time stands still until it is reached again.
//
// It costs one step for each pair of the second that ended and of the second that leaves.
func (c *Counter) Advance(second int64, left func(place int, n int64)) {
	c.crossed = c.crossed[:0]
	// After a whole ring without counts, further seconds change nothing.
	quiet := c.clock.now + c.clock.size + 1
	for c.clock.now < min(second, quiet) {
		c.advanceSecond(left)
	}
	if c.clock.now < second {
		c.clock.set(second)
	}
	c.releaseMemory()
}

// releaseMemory releases memory that is nearly empty, but not in a flood, which would need it again at once.
func (c *Counter) releaseMemory() {
	if size := c.table.Size(); size <= 1024 || 8*(c.table.Len()-c.idle) >= size || c.Error() > 0 {
		return
	}
	c.compactTable()
	for i := range c.slots {
		if s := &c.slots[i]; 8*len(s.pairs) < cap(s.pairs) {
			s.pairs = slices.Clone(s.pairs)
		}
	}
}

func (c *Counter) advanceSecond(left func(int, int64)) {
	for k, pairs := 0, c.slots[c.clock.pos].pairs; k < len(pairs); k++ {
		v := c.table.At(int(pairs[k].place))
		pairs[k].n, v.cur = v.cur, 0
	}
	c.expireOldest(left)
	c.endSecond()
	ended := c.clock.pos
	c.clock.nextSecond()
	c.shedExcess(ended)
	c.reuseMemory(&c.slots[ended], &c.slots[c.clock.pos])
	c.startSecond()
}

// shedExcess makes room after a second that has more than its share of the counters while they are short. The next
// seconds would need that room anyway; freed now, the memory in constant use stays small enough to be near the
// processor.
func (c *Counter) shedExcess(ended int64) {
	if !c.overCapacity || int64(len(c.slots[ended].pairs))*c.clock.size <= int64(c.cfg.Counters) {
		return
	}
	c.evictThird(ended)
	if 2*c.idle > c.table.Len() {
		c.compactTable()
	}
}

// reuseMemory moves the memory of a second that ended with far fewer pairs than it once had, because of a purge, to the
// second that begins. So one second holds it, not each.
func (c *Counter) reuseMemory(ended, begins *slot) {
	large := ended.pairs
	if ended == begins || cap(large) < 2*len(large)+1024 || cap(large) <= cap(begins.pairs) {
		return
	}
	ended.pairs = slices.Clone(large)
	if 8*max(ended.most, len(large)) >= cap(large) {
		begins.pairs = append(large[:0], begins.pairs...)
	}
}

func (c *Counter) expireOldest(left func(int, int64)) {
	s := &c.slots[c.clock.slotOf(c.clock.oldestSecond())]
	for _, p := range s.pairs {
		v := c.table.At(int(p.place))
		v.sum -= p.n
		v.addLeft(c.clock.now+1, p.n)
		if left != nil {
			left(int(p.place), p.n)
		}
		c.releasePair(v)
	}
	used := len(s.pairs)
	*s = slot{pairs: s.pairs[:0]}
	if cap(s.pairs) > 64 && 8*used < cap(s.pairs) {
		s.pairs = nil
	}
}

// startSecond takes over the counts that came ahead of the second that begins. Each of their keys then has one pair in
// it, whose count the key itself holds.
func (c *Counter) startSecond() {
	s := &c.slots[c.clock.pos]
	if len(s.pairs) == 0 {
		return
	}
	c.joinPairs(c.clock.pos)
	for k := range s.pairs {
		p := &s.pairs[k]
		v := c.table.At(int(p.place))
		v.sum += p.n
		v.cur, p.n = p.n, 0
		if v.sum >= c.limit && c.crossesThreshold(v, v.sum) {
			c.crossed = append(c.crossed, int(p.place))
		}
	}
}

// Crossed returns the places of the keys that the last Advance lifted to the limit or to the threshold of their watch,
// because they were counted ahead of their second. It is valid until the next Add or Advance.
func (c *Counter) Crossed() []int { return c.crossed }

// clock holds the current second and the place of its slot in the ring. The ring has one slot for each second from
// now-window+1 to now+future. A slot is found by its distance from now, without a division.
type clock struct {
	now    int64
	window int64
	size   int64 // slots in the ring: window + future
	pos    int64 // slot of now
}

func newClock(cfg Config, now int64) clock {
	c := clock{window: cfg.Window, size: cfg.Window + cfg.Future}
	c.set(now)
	return c
}

func (c *clock) set(second int64) {
	c.now = second
	c.pos = second % c.size
	if c.pos < 0 {
		c.pos += c.size
	}
}

// nextSecond moves to the following second without a division.
func (c *clock) nextSecond() {
	c.now++
	if c.pos++; c.pos == c.size {
		c.pos = 0
	}
}

// slotOf returns the place of a second in the ring; the second is less than size seconds away from now.
func (c *clock) slotOf(second int64) int64 {
	i := c.pos + second - c.now
	switch {
	case i < 0:
		return i + c.size
	case i >= c.size:
		return i - c.size
	}
	return i
}

// oldestSecond returns the first second of the window.
func (c *clock) oldestSecond() int64 { return c.now - c.window + 1 }

// newestSecond returns the last second for which counts are taken.
func (c *clock) newestSecond() int64 { return c.now + c.size - c.window }
