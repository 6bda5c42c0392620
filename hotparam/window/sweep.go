package window

// sweep drops the idle keys of the shard, gives memory back where little is
// left in it, and says how many keys and rings became free. It costs one pass
// over the shard's keys, and a new index where one was dropped.
func (s *shard) sweep(c *clock) (keys, rings int) {
	all, unused := len(s.keys), len(s.free)
	live := s.keys[:0]
	for i := range s.keys {
		e := s.keys[i]
		if !s.idle(&e, c) {
			live = append(live, e)
		} else if e.ring >= 0 {
			clear(s.slots(&e, c))
			s.free = append(s.free, e.ring)
		}
	}
	keys, rings = all-len(live), len(s.free)-unused
	if keys > 0 {
		clear(s.keys[len(live):]) // let go of the names
		s.keys = live
		s.settle(c)
	}
	return keys, rings
}

// settle brings index and memory in line after keys were dropped.
func (s *shard) settle(c *clock) {
	switch {
	case len(s.keys) == 0:
		*s = shard{}
	case 4*len(s.keys) < cap(s.keys) && cap(s.keys) > 16:
		s.shrink(c)
	default:
		s.reindex(len(s.index))
	}
}

// idle reports whether e has nothing in any slot. A key looked at within the
// window is taken as live without looking into its ring.
func (s *shard) idle(e *entry, c *clock) bool {
	if e.at > c.now-c.window {
		return false
	}
	if e.ring < 0 {
		return true
	}
	if s.sum(e, c) > 0 {
		return false
	}
	for ahead := int64(1); ahead <= c.size-c.window; ahead++ {
		if s.slots(e, c)[c.slot(c.now+ahead)] > 0 {
			return false
		}
	}
	return true
}

// shrink moves what is left into memory of its size.
func (s *shard) shrink(c *clock) {
	old := *s
	*s = shard{keys: make([]entry, 0, 2*len(old.keys))}
	for _, e := range old.keys {
		if e.ring >= 0 {
			ring := old.slots(&e, c)
			e.ring = int32(int64(len(s.rings)) / c.size)
			s.rings = append(s.rings, ring...)
		}
		s.keys = append(s.keys, e)
	}
	size := 8
	for size < 2*cap(s.keys) {
		size *= 2
	}
	s.reindex(size)
}
