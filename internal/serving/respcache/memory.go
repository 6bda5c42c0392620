package respcache

import "sync/atomic"

// memory counts the bytes of an answer while the store has the answer, while a fetch may freshen it, and while clients
// read it: an evicted answer is in memory until the slowest client has read it.
type memory struct {
	bytes int64
	total *atomic.Int64 // of the store
	users atomic.Int64
}

// retain adds a user. A nil *memory is not counted.
func (m *memory) retain() {
	if m != nil && m.users.Add(1) == 1 {
		m.total.Add(m.bytes)
	}
}

// release removes a user. When the last user is gone, the bytes no longer count. A nil *memory is not counted.
func (m *memory) release() {
	if m != nil && m.users.Add(-1) == 0 {
		m.total.Add(-m.bytes)
	}
}

// memoryOf returns the memory of an answer whose body is complete, and makes it if needed. It needs the lock under
// which the answer was made.
func (s *store) memoryOf(a *answer) *memory {
	if a.memory == nil {
		a.memory = &memory{bytes: a.byteSize(), total: &s.bytes}
	}
	return a.memory
}

// lendBody keeps the buffered body counted for as long as the client of the fetch may read it: as part of the answer
// that was made of it, or else by the reserved bytes. It needs mu.
func (f *fetch) lendBody(a *answer) {
	select {
	case <-f.gone:
		f.store.bytes.Add(-f.reserved)
		return
	default:
	}
	if a != nil && len(a.body) > 0 && len(f.body) > 0 && &a.body[0] == &f.body[0] {
		f.store.bytes.Add(-f.reserved)
		f.lent = f.store.memoryOf(a)
		f.lent.retain()
		return
	}
	f.lent = &memory{bytes: f.reserved, total: &f.store.bytes}
	f.lent.users.Store(1)
}
