package respcache

import "time"

// setAnswer gives an entry its answer, or a marker where that is nil, and counts its bytes.
func (s *store) setAnswer(sh *shard, e *entry, a *answer, now time.Time) {
	before := e.bytes
	e.answer, e.bytes = a, int64(overhead+2*len(e.of.target)+len(e.variant))
	if a != nil {
		e.bytes += a.bytes()
	}
	s.bytes.Add(e.bytes - before)
	e.moved = time.Time{}
	sh.touch(e, now)
}

// touch makes an entry the most recently used one. Within a second it is not moved again,
// which a hot key would be at every request.
func (sh *shard) touch(e *entry, now time.Time) {
	if d := now.Sub(e.moved); e.bytes == 0 || d >= 0 && d < time.Second {
		return
	}
	e.moved = now
	if e.listed == nil {
		e.listed = sh.lru.PushFront(e)
	}
	sh.lru.MoveToFront(e.listed)
}

// forget takes what an entry holds.
func (s *store) forget(sh *shard, e *entry) {
	if e.bytes == 0 {
		return
	}
	sh.lru.Remove(e.listed)
	s.bytes.Add(-e.bytes)
	e.listed, e.answer, e.bytes, e.uncacheableUntil = nil, nil, 0, time.Time{}
}

// drop takes an entry out that holds nothing, and its resource with the last one.
func (s *store) drop(sh *shard, e *entry) {
	if e.bytes != 0 || e.fetch != nil {
		return
	}
	if e.of.variants[e.variant] == e {
		delete(e.of.variants, e.variant)
	}
	if len(e.of.variants) == 0 && sh.resources[e.of.target] == e.of {
		delete(sh.resources, e.of.target)
	}
}

// remove takes a whole resource out. Its flights land nowhere.
func (s *store) remove(sh *shard, res *resource) {
	for _, e := range res.variants {
		s.forget(sh, e)
		e.fetch = nil
	}
	clear(res.variants)
	delete(sh.resources, res.target)
}

// shrink gives up the least recently used entries while there are too many bytes, of a
// shard first.
func (s *store) shrink(own *shard) {
	for i := range shards {
		if s.bytes.Load() <= s.limit {
			return
		}
		sh := &s.shards[(own.at+i)%shards]
		sh.mu.Lock()
		for s.bytes.Load() > s.limit && sh.lru.Len() > 0 {
			e := sh.lru.Back().Value.(*entry)
			s.forget(sh, e)
			sh.evicted++
			s.drop(sh, e)
		}
		sh.mu.Unlock()
	}
}

// reserve counts bytes of an answer that is on its way. It reports whether there is room.
func (s *store) reserve(sh *shard, n int64) bool {
	if s.bytes.Add(n); s.bytes.Load() > s.limit {
		s.shrink(sh)
	}
	if s.bytes.Load() > s.limit {
		s.bytes.Add(-n)
		return false
	}
	return true
}
