package window

import "math"

// watch follows one key, which is held as long as the watch lasts.
type watch struct {
	place     int32 // -1: the watch is free
	threshold int64
	since     int64
}

// Watched is the result of reading a watch.
type Watched struct {
	// Sum and Upper are the lower and the upper bound of the key's count in the window. They are equal after a whole
	// window of watching.
	Sum, Upper int64
	// Expired is the count of the key in the second that left the window last. Before is the lower bound for the window
	// that ended when the current second began, with the counts that came later.
	Expired, Before int64
}

// Watch begins to follow the key at a place, which must not be watched, and returns the number of the watch. Add
// reports the key when its sum is at Limit and at threshold or above.
func (c *Counter) Watch(place int, threshold int64) int {
	w := watch{place: int32(place), threshold: threshold, since: c.clock.newestSecond()}
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

// WatchKey watches a key that may not be held yet, and returns -1 if there is no room for the key.
func (c *Counter) WatchKey(hash uint64, key string, threshold int64) int {
	i := c.table.Find(hash, key)
	if i < 0 {
		if i = c.insertKey(hash, key); i < 0 {
			return -1
		}
	}
	return c.Watch(i, threshold)
}

// WatchOf returns the number of the watch on the key at a place, or -1 if the key is not watched.
func (c *Counter) WatchOf(place int) int { return int(c.table.At(place).watch) - 1 }

// SetThreshold changes the threshold of a watch; a negative threshold is never reached.
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

// SumOf returns the sum of a watch, which is mostly enough and costs less than Read. BeforeOf returns the sum of the
// window that ended when the current second began.
func (c *Counter) SumOf(id int) int64 { return c.table.At(int(c.watches[id].place)).sum }
func (c *Counter) BeforeOf(id int) int64 {
	return c.table.At(int(c.watches[id].place)).sumBefore(c.clock.now)
}

// Read returns all values of a watch. It costs one step for each second of the window.
func (c *Counter) Read(id int) Watched {
	w := &c.watches[id]
	upper := c.table.At(int(w.place)).sum
	for s := c.clock.oldestSecond(); s <= min(c.clock.now, w.since); s++ {
		upper += c.slots[c.clock.slotOf(s)].maxMissed()
	}
	v := c.table.At(int(w.place))
	return Watched{Sum: v.sum, Upper: upper, Expired: v.leftCount(c.clock.now), Before: v.sumBefore(c.clock.now)}
}

// Forget drops all counts of the keys for which the function which returns true. Watches on them stay. It costs one
// pass over all keys and counters.
func (c *Counter) Forget(which func(key string) bool) {
	forgotten := c.zeroedScratch()
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
				c.releasePair(c.table.At(int(p.place)))
			}
		}
		s.pairs = kept
	}
	clear(forgotten)
}
