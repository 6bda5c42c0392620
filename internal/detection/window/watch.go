package window

import "math"

// watch follows one key, which is held as long as the watch lasts.
type watch struct {
	place     int32 // -1: the watch is free
	threshold int64
	since     int64
}

// Watched is what a watch sees.
type Watched struct {
	// Sum is the least that the key can have in the window, and Upper the
	// most. They are one after a whole window of watching.
	Sum, Upper int64
	// Expired is what it had in the second that left the window last, and Before the least of the window that
	// ended when the current second began, with the counts that came later.
	Expired, Before int64
}

// Watch begins to follow the key at a place, which must not be watched, and gives
// the number to ask for it with. Add tells when the key's sum is at Limit and at
// threshold or above.
func (c *Counter) Watch(place int, threshold int64) int {
	w := watch{place: int32(place), threshold: threshold, since: c.clock.newest()}
	id := len(c.watches)
	if n := len(c.unused); n > 0 {
		id = int(c.unused[n-1])
		c.unused = c.unused[:n-1]
		c.watches[id] = w
	} else {
		c.watches = append(c.watches, w)
	}
	v := c.table.At(place)
	if v.pairs == 0 {
		c.idle--
	}
	v.watch = int32(id + 1)
	return id
}

// WatchKey is Watch of a key that may not be held; -1 where it has no room.
func (c *Counter) WatchKey(hash uint64, key string, threshold int64) int {
	i := c.table.Find(hash, key)
	if i < 0 {
		if i = c.enter(hash, key); i < 0 {
			return -1
		}
	}
	return c.Watch(i, threshold)
}

// WatchOf is the number of the watch on the key at a place, -1 where there is
// none.
func (c *Counter) WatchOf(place int) int { return int(c.table.At(place).watch) - 1 }

// SetThreshold changes the threshold of a watch; a negative one means never.
func (c *Counter) SetThreshold(id int, threshold int64) {
	if threshold < 0 {
		threshold = math.MaxInt64
	}
	c.watches[id].threshold = threshold
}

func (c *Counter) Unwatch(id int) {
	v := c.table.At(int(c.watches[id].place))
	v.watch = 0
	if v.pairs == 0 {
		c.idle++
	}
	c.watches[id].place = -1
	c.unused = append(c.unused, int32(id))
}

// SumOf is the sum of a watch, which is all that Read has to be asked for
// mostly, and BeforeOf that of the window that ended when the current second began.
func (c *Counter) SumOf(id int) int64 { return c.table.At(int(c.watches[id].place)).sum }
func (c *Counter) BeforeOf(id int) int64 {
	return c.table.At(int(c.watches[id].place)).before(c.clock.now)
}

// Read tells what a watch sees. It costs one step for each second of the window.
func (c *Counter) Read(id int) Watched {
	w := &c.watches[id]
	upper := c.table.At(int(w.place)).sum
	for s := c.clock.oldest(); s <= min(c.clock.now, w.since); s++ {
		upper += c.slots[c.clock.slot(s)].missed()
	}
	v := c.table.At(int(w.place))
	return Watched{Sum: v.sum, Upper: upper, Expired: v.expired(c.clock.now), Before: v.before(c.clock.now)}
}

// Forget drops all counts of the keys that which says. Watches on them stay. It
// costs one pass over all keys and counters.
func (c *Counter) Forget(which func(key string) bool) {
	forgotten := c.marks()
	for i := range c.table.Len() {
		if !which(c.table.Key(i)) {
			continue
		}
		forgotten[i] = 1
		v := c.table.At(i)
		v.sum, v.cur, v.left = 0, 0, 0
	}
	for i := range c.slots {
		s := &c.slots[i]
		kept := s.pairs[:0]
		for _, p := range s.pairs {
			if forgotten[p.place] == 0 {
				kept = append(kept, p)
			} else {
				c.drop(c.table.At(int(p.place)))
			}
		}
		s.pairs = kept
	}
	clear(forgotten)
}
