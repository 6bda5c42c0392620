package limit

import "time"

// MemoryStats is a Memory's own account.
type MemoryStats struct {
	// Subjects are remembered now, expired ones that nobody has asked for
	// since included.
	Subjects int64
	// Evictions counts subjects that were forgotten to make room for others,
	// EvictedLive those of them that had something taken: each had its limit
	// reset. Where that grows, MaxSubjects is too small.
	Evictions, EvictedLive uint64
}

// Stats adds up all shards. It locks them one by one, briefly.
func (m *Memory) Stats() MemoryStats {
	var st MemoryStats
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		for j := range sh.tables {
			t := &sh.tables[j]
			st.Subjects += int64(len(t.entries))
			st.Evictions += t.evicted
			st.EvictedLive += t.evictedLive
		}
		sh.mu.Unlock()
	}
	return st
}

// RefundAt undoes a Take that was allowed here, for a decision that another
// store then denied. now is the time that was given to that Take. It gives back
// at most what was charged, never lifts a subject above its capacity, and never
// lets more pass than if the charge had not been made: what has run back into a
// bucket by itself, or belongs to a window that is over, is not given twice.
// Charges that Take would refuse are ignored. It allocates nothing.
func (m *Memory) RefundAt(now time.Time, charges []Charge) {
	us := micros(now)
	for i := range charges {
		c := &charges[i]
		compiled, err := c.Spec.Compile()
		if err != nil || c.Cost <= 0 {
			continue
		}
		id, shard, tab := m.locate(&c.Subject)
		sh := &m.shards[shard]
		sh.mu.Lock()
		if slot := tab.find(id); slot >= 0 {
			e := &tab.entries[slot]
			compiled.refund(&e.state, tab.logs.get(e.log), us, c.Cost)
		}
		sh.mu.Unlock()
	}
}

// Sweep forgets every subject whose state has expired and returns how many.
// Nothing depends on it (law U8): it only gives memory back after a crowd has
// gone. It locks the shards one by one.
func (m *Memory) Sweep(now time.Time) int {
	us, n := micros(now), 0
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		for j := range sh.tables {
			n += sh.tables[j].sweep(us)
			sh.tables[j].sweepBlocks(us)
		}
		sh.mu.Unlock()
	}
	return n
}

// sweep keeps what is live, in fresh memory of the right size.
func (t *table) sweep(now int64) int {
	live := 0
	for i := range t.entries {
		if now < t.entries[i].state.end() {
			live++
		}
	}
	gone := len(t.entries) - live
	if gone == 0 {
		return 0
	}
	kept := make([]entry, 0, live)
	index := make(map[uint64]int32, live)
	for _, e := range t.entries {
		if now < e.state.end() {
			index[e.id.hi] = int32(len(kept))
			kept = append(kept, e)
		} else {
			t.logs.drop(e.log)
		}
	}
	t.entries, t.index, t.hand = kept, index, 0
	return gone
}
