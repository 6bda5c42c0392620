package limit

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The memory of a log does not grow with time, and is what its doc says.
func TestTrailIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		spec := Spec{Algorithm: SlidingLog, Limit: rapid.Int64Range(1, 2000).Draw(rt, "limit"), Window: time.Millisecond}
		m, now, results := NewMemory(MemoryConfig{}), time.Unix(1_700_000_000, 0), make([]Result, 1)
		charges := []Charge{{Subject: Subject{Space: "s", Name: "n"}, Spec: spec, Cost: 1}}
		for range 6000 {
			now = now.Add(time.Microsecond * time.Duration(rapid.IntRange(0, 3).Draw(rt, "us")))
			if _, err := m.Take(context.Background(), now, charges, results); err != nil {
				rt.Fatal(err)
			}
		}
		id, shard, tab := m.locate(&charges[0].Subject)
		log := m.shards[shard].tables[0].logs.get(tab.entries[tab.find(id)].log)
		live := int64(len(log.ticks) - log.head)
		if most := min(spec.Limit, 1000); live > most || int64(cap(log.ticks)) > most*8/3+8 {
			rt.Fatalf("%d per 1000 us: %d ticks, room for %d", spec.Limit, live, cap(log.ticks))
		}
	})
}

// Two charges of one request for one log count together, once.
func TestLogTwiceInARequest(t *testing.T) {
	t.Parallel()
	m, results := NewMemory(MemoryConfig{}), make([]Result, 2)
	log := Charge{Subject: Subject{Space: "s"}, Spec: Spec{Algorithm: SlidingLog, Limit: 5, Window: time.Second}, Cost: 1}
	for i, want := range []int64{3, 1, 1} {
		if _, err := m.Take(context.Background(), time.UnixMilli(int64(i)), []Charge{log, log}, results); err != nil || results[1].Remaining != want {
			t.Errorf("call %d: %+v, want %d left; %v", i, results, want, err)
		}
	}
}
