package limit

import (
	"math"
	"time"
)

// SetSums makes it so that used is taken of a fixed or sliding window in the window
// of at, and prev in the one before, whatever the limit says. It is for stores that
// admit by themselves and hear what others have admitted. Of the spec only Algorithm
// and Window count; other algorithms are ignored. Sums that are known change nothing.
func (m *Memory) SetSums(at time.Time, s Subject, spec Spec, used, prev int64) {
	compiled, err := spec.Compile()
	if err != nil || compiled.Kind != KindFixed && compiled.Kind != KindSliding {
		return
	}
	next := state{kind: compiled.Kind, at: micros(at), used: min(max(used, 0), maxExact), unit: compiled.Unit}
	if most := math.MaxInt64 / next.unit; next.kind == KindSliding { // so that products are; no limit is as high
		next.used, next.aux = min(next.used, most), min(max(prev, 0), most)
	}
	id, shard, tab := m.locate(&s)
	sh := &m.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slot, known := tab.find(id), state{}
	if slot >= 0 {
		known = tab.entries[slot].state
	}
	if known.sameSums(&next) {
		return
	}
	if slot < 0 {
		slot = tab.put(id, m.room, next.at)
	}
	tab.write(&tab.entries[slot], &next, 0)
}

// sameSums is whether a state has, in the window of another and in the one before, the
// sums that the other has.
func (s *state) sameSums(next *state) bool {
	if s.kind == KindNone {
		return next.used == 0 && next.aux == 0
	}
	if s.kind != next.kind || s.unit != next.unit {
		return false
	}
	used, prev := int64(0), int64(0)
	switch later := windowStart(next.at, s.unit) - windowStart(s.at, s.unit); {
	case later < 0: // the clock was ahead
		return false
	case later == 0:
		used, prev = s.used, s.aux
	case later == s.unit:
		prev = s.used
	}
	return used == next.used && (prev == next.aux || s.kind == KindFixed)
}
