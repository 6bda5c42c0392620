package window

// clock is what second it is and where its slot stands in the ring. The ring
// has one slot for each second from now-window+1 to now+future; a slot is found
// by its distance from now, without a division.
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

// slot is where second stands in the ring; it is less than size seconds away
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

// oldest is the first second of the window.
func (c *clock) oldest() int64 { return c.now - c.window + 1 }

// newest is the last second that counts are taken for.
func (c *clock) newest() int64 { return c.now + c.size - c.window }
