package window

// clock is what second it is and where its slot stands in a ring. The ring has
// one slot for each second from now-window+1 to now+future; a slot is found by
// its distance from now, without a division.
type clock struct {
	now    int64
	window int64
	size   int64 // slots in a ring: window + future
	pos    int64 // slot of now
}

func newClock(cfg Config, now int64) clock {
	c := clock{window: cfg.Window, size: cfg.Window + cfg.Future}
	c.advance(now)
	return c
}

func (c *clock) advance(second int64) {
	c.now = second
	c.pos = second % c.size
	if c.pos < 0 {
		c.pos += c.size
	}
}

// slot is where second stands in a ring; it is less than size seconds away
// from now.
func (c *clock) slot(second int64) int64 {
	i := c.pos + second - c.now
	switch {
	case i < 0:
		return i + c.size
	case i >= c.size:
		return i - c.size
	}
	return i
}

// single is the sum of a key that has n in one second and nothing else.
func (c *clock) single(second, n int64) int64 {
	if second > c.now || second <= c.now-c.window {
		return 0
	}
	return n
}

// roll moves an entry, with its ring, to now.
func (c *clock) roll(e *entry, ring []int64) {
	if c.now-e.at >= c.size { // everything in it has left the window
		clear(ring)
		e.at, e.n, e.sum = c.now, 0, 0
		return
	}
	ring[c.slot(e.at)] = e.n
	for s := e.at + 1; s <= c.now; s++ {
		// s-window leaves; its slot is the one that s+future comes into.
		turns := c.slot(s + c.size - c.window)
		e.sum -= ring[turns]
		ring[turns] = 0
		e.sum += ring[c.slot(s)]
	}
	slot := c.slot(c.now)
	e.at, e.n, ring[slot] = c.now, ring[slot], 0
}
