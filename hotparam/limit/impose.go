package limit

import "time"

// Impose counts a cost that was admitted elsewhere at a time, whatever the limit
// says: what is taken may exceed the capacity afterwards. It is for stores that
// admit by themselves and exchange their sums, so it knows fixed and sliding
// windows only and ignores other algorithms, as it ignores what belongs to a
// window that no longer counts.
func (m *Memory) Impose(at time.Time, c Charge) {
	terms, err := c.Spec.Terms()
	if err != nil || c.Cost <= 0 || terms.Kind != KindFixed && terms.Kind != KindSliding {
		return
	}
	us := micros(at)
	id, shard, tab := m.locate(&c.Subject)
	sh := &m.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slot := tab.find(id)
	if slot < 0 {
		slot = tab.put(id, m.room, us)
	}
	e := &tab.entries[slot]
	next := e.state
	terms.impose(&next, us, c.Cost)
	tab.write(e, &next, c.Cost)
}

// impose adds a cost of the window of at, which may be the one before that of the
// state.
func (t *Terms) impose(s *state, at, cost int64) {
	most := maxExact / t.Unit // so that products stay exact
	cost = min(cost, most)
	if !t.owns(s) || s.kind == KindNone {
		*s = state{kind: t.Kind, at: at, unit: t.Unit}
	}
	start, mine := windowStart(s.at, t.Unit), windowStart(at, t.Unit)
	switch {
	case mine == start:
		s.used = min(most, s.used+cost)
	case mine == start-t.Unit && t.Kind == KindSliding:
		s.aux = min(most, s.aux+cost)
	case mine == start+t.Unit && t.Kind == KindSliding:
		*s = state{kind: t.Kind, at: at, used: cost, unit: t.Unit, aux: s.used}
	case mine > start:
		*s = state{kind: t.Kind, at: at, used: cost, unit: t.Unit}
	}
}
