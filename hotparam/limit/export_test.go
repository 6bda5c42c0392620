package limit

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/limitcore"
)

// Dump returns every state as text, for the laws by which nothing changes.
func (m *Memory) Dump() string {
	var lines []string
	for i := range m.shards {
		for j := range m.shards[i].tables {
			for _, e := range m.shards[i].tables[j].entries {
				log := m.shards[i].tables[j].logs.Get(e.log)
				lines = append(lines, fmt.Sprintf("%d %x %+v %+v", j, e.id, e.state, log))
			}
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// Sweep forgets every subject whose state has expired and returns the number of them. No decision depends on it (law
// U8): it only frees memory after many subjects have expired. It locks the shards in turn.
func (m *Memory) Sweep(now time.Time) int {
	us, n := limitcore.Micros(now), 0
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

// sweep keeps the states that have not ended, in new memory of the right size.
func (t *table) sweep(now int64) int {
	live := 0
	for i := range t.entries {
		if now < t.entries[i].state.End() {
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
		if now < e.state.End() {
			index[e.id.hi] = int32(len(kept))
			kept = append(kept, e)
		} else {
			t.logs.Drop(e.log)
		}
	}
	t.entries, t.index, t.hand = kept, index, 0
	return gone
}

// sweepBlocks removes blocks that have no further effect.
func (t *table) sweepBlocks(now int64) {
	for id, b := range t.blocks {
		if now >= b.forgetAt() {
			delete(t.blocks, id)
		}
	}
}

// Shards returns the number of shards, and the number of subjects that each table of a shard holds.
func (m *Memory) Shards() (n, capacity int) { return len(m.shards), m.capacity }
