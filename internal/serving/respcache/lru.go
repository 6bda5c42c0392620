package respcache

import "time"

// setAnswer stores an answer in an entry, or a marker if a is nil, and counts its bytes.
func (s *store) setAnswer(sh *shard, e *entry, a *answer, now time.Time) {
	before, own := e.answer, e.ownBytes()
	if e.bytes == 0 {
		s.bytes.Add(own)
	}
	if e.answer, e.bytes = a, own; a != nil {
		s.memoryOf(a).retain()
		e.bytes += a.memory.bytes
	}
	if before != nil {
		before.memory.release()
	}
	e.moved = time.Time{}
	sh.markUsed(e, now)
}

// ownBytes returns the bytes of an entry without its answer.
func (e *entry) ownBytes() int64 { return int64(overhead + 2*len(e.resource.target) + len(e.variant)) }

// markUsed makes an entry the most recently used one. It does not move it again within a second, because a hot key
// would be moved at every request.
func (sh *shard) markUsed(e *entry, now time.Time) {
	if d := now.Sub(e.moved); e.bytes == 0 || d >= 0 && d < time.Second {
		return
	}
	e.moved = now
	if e.listed == nil {
		e.listed = sh.lru.PushFront(e)
	}
	sh.lru.MoveToFront(e.listed)
}

// removeAnswer removes the answer or marker of an entry. An answer's bytes count until its last reader has it.
func (s *store) removeAnswer(sh *shard, e *entry) {
	if e.bytes == 0 {
		return
	}
	sh.lru.Remove(e.listed)
	s.bytes.Add(-e.ownBytes())
	if e.answer != nil {
		e.answer.memory.release()
	}
	e.listed, e.answer, e.bytes, e.uncacheableUntil = nil, nil, 0, time.Time{}
}

// removeIfEmpty removes an entry that has neither answer, marker nor fetch, and its resource with the last entry.
func (s *store) removeIfEmpty(sh *shard, e *entry) {
	if e.bytes != 0 || e.fetch != nil {
		return
	}
	if e.resource.variants[e.variant] == e {
		delete(e.resource.variants, e.variant)
	}
	if len(e.resource.variants) == 0 && sh.resources[e.resource.target] == e.resource {
		delete(sh.resources, e.resource.target)
	}
}

// removeResource removes a whole resource. The responses of its fetches are not stored.
func (s *store) removeResource(sh *shard, res *resource) {
	for _, e := range res.variants {
		s.removeAnswer(sh, e)
		e.fetch = nil
	}
	clear(res.variants)
	delete(sh.resources, res.target)
}

// evictExcess evicts the least recently used entries while the store exceeds its limit, beginning with the shard own.
// Evicting an answer that is being read would free nothing, so such an answer counts as used.
func (s *store) evictExcess(own *shard) {
	for i := range shards {
		if s.bytes.Load() <= s.limit {
			return
		}
		sh := &s.shards[(own.index+i)%shards]
		sh.mu.Lock()
		for n := sh.lru.Len(); n > 0 && s.bytes.Load() > s.limit; n-- {
			e := sh.lru.Back().Value.(*entry)
			if e.answer != nil && e.answer.memory.users.Load() > 1 {
				sh.lru.MoveToFront(e.listed)
				continue
			}
			s.removeAnswer(sh, e)
			sh.evicted++
			s.removeIfEmpty(sh, e)
		}
		sh.mu.Unlock()
	}
}

// reserveBytes counts n bytes of a response that is not yet complete. It reports whether there is room for them.
func (s *store) reserveBytes(sh *shard, n int64) bool {
	if s.bytes.Add(n); s.bytes.Load() > s.limit {
		s.evictExcess(sh)
	}
	if s.bytes.Load() > s.limit {
		s.bytes.Add(-n)
		return false
	}
	return true
}
