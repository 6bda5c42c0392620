package limit

import (
	"fmt"
	"math/bits"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// place is a subject in the model of a table, which follows the doc comment of Memory about evictions, without its
// code.
type place struct {
	name    string
	calls   uint
	end, at int64
}

// evict chooses the place of a new subject: of the next eight the first that has expired, else the place called least
// often, of these the place that expires first, of these the place charged longest ago.
func evict(places []place, hand *int, now int64) (best int) {
	best = -1
	for range min(8, len(places)) {
		i := *hand
		*hand = (i + 1) % len(places)
		p := places[i]
		if p.end <= now {
			return i
		}
		less := best < 0
		if !less {
			b, calls, most := places[best], bits.Len(p.calls), bits.Len(places[best].calls)
			less = calls < most || calls == most && (p.end < b.end || p.end == b.end && p.at < b.at)
		}
		if less {
			best = i
		}
	}
	return best
}

// A full table keeps the same subjects as the model, after every call, and counts the same evictions. Tick logs of
// evicted subjects are used again.
func TestEvictionsAreThoseOfAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		capacity := rapid.SampledFrom([]int{3, 8, 12}).Draw(rt, "capacity")
		m, now := NewMemory(MemoryConfig{MaxSubjects: capacity}), int64(1_700_000_000_000_000)
		var places []place
		var evictions, active uint64
		hand := 0
		for range 150 {
			now += rapid.SampledFrom([]int64{0, 0, 1, 1_000_000, 4_000_000}).Draw(rt, "us")
			name := fmt.Sprint(rapid.IntRange(0, 2*capacity).Draw(rt, "name"))
			s := Spec{Algorithm: SlidingLog, Limit: 6, Window: time.Duration(rapid.IntRange(1, 2).Draw(rt, "s")) * 5 *
				time.Second}
			if rapid.Bool().Draw(rt, "window") {
				s.Algorithm = AnchoredWindow
			}
			c := Charge{Subject: Subject{Space: "a", Name: name}, Spec: s, Cost: rapid.Int64Range(0, 7).Draw(rt, "cost")}
			var results [1]Result
			ok, err := m.Take(t.Context(), time.UnixMicro(now), []Charge{c}, results[:])
			if err != nil {
				rt.Fatal(err)
			}
			at := -1
			for i := range places {
				if places[i].name == name {
					at = i
				}
			}
			switch {
			case c.Cost == 0 || at < 0 && !ok:
			case at >= 0:
				places[at].calls++
			case len(places) < capacity:
				at, places = len(places), append(places, place{name: name, calls: 1})
			default:
				at = evict(places, &hand, now)
				if evictions++; now < places[at].end {
					active++
				}
				places[at] = place{name: name, calls: 1}
			}
			if c.Cost > 0 && ok {
				places[at].at, places[at].end = now, now+results[0].ResetAfter.Microseconds()
			}
			tab := &m.shards[0].tables[m.spaceIndex("a")]
			for i, p := range places {
				id, _, _ := m.locateSubject(&Subject{Space: "a", Name: p.name})
				if slot := tab.find(id); int(slot) != i || tab.entries[slot].state.End() != p.end ||
					tab.entries[slot].state.ChargedAt() != p.at || int(tab.entries[slot].log) > capacity {
					rt.Fatalf("%q: in place %d, want %d: %+v", p.name, slot, i, places)
				}
			}
			if got := m.Stats(); got != (MemoryStats{int64(len(places)), evictions, active}) {
				rt.Fatalf("%+v, want %d evictions, %d of them active", got, evictions, active)
			}
		}
	})
}

// A request of many charges leaves neither blocks nor state for the next request.
func TestManyChargesLeaveNothing(t *testing.T) {
	t.Parallel()
	m, now := NewMemory(MemoryConfig{}), time.Unix(1_700_000_000, 0)
	blocks := Spec{Algorithm: FixedWindow, Limit: 1, Window: time.Second, Block: time.Minute}
	take := func(s Spec, cost int64, names ...string) bool {
		charges := make([]Charge, len(names))
		for i, name := range names {
			charges[i] = Charge{Subject: Subject{Space: "a", Name: name}, Spec: s, Cost: cost}
		}
		ok, err := m.Take(t.Context(), now, charges, make([]Result, len(charges)))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	names := []string{"a", "b", "c", "d", "e"}
	if !take(blocks, 1, names...) || take(blocks, 1, names...) { // all are now blocked
		t.Fatal("the second request is one too many")
	}
	other, free := []string{"f", "g", "h", "i", "j"}, blocks
	free.Block = 0
	if take(free, 2, other...) {
		t.Fatal("above the capacity")
	}
	if !take(blocks, 1, other...) {
		t.Error("blocked by the request of others")
	}
}

// A request locks the shards of its subjects, and no other shards.
func TestShardsOfARequestAreLocked(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryConfig{})
	for n := range 40 {
		charges, want := make([]Charge, n%5+1), uint64(0)
		for i := range charges {
			charges[i] = Charge{Subject: Subject{Space: "a", Name: fmt.Sprint(n, i)}, Spec: PerSecond(1), Cost: 1}
			_, shard, _ := m.locateSubject(&charges[i].Subject)
			want |= uint64(1) << shard
		}
		if locks, err := m.prepare(charges, make([]pending, len(charges))); err != nil || locks != want {
			t.Errorf("%d charges lock %b, want %b: %v", len(charges), locks, want, err)
		}
	}
}

// A block that is evicted at its end no longer denied anything.
func TestBlockEvictedAtItsEnd(t *testing.T) {
	t.Parallel()
	for after, active := range map[time.Duration]uint64{999_999 * time.Microsecond: 1, time.Second: 0} {
		m, now := NewMemory(MemoryConfig{MaxSubjects: 1}), time.Unix(1_700_000_000, 0)
		c := Charge{Subject: Subject{Space: "a", Name: "a"}, Cost: 1,
			Spec: Spec{Algorithm: FixedWindow, Limit: 1, Window: time.Second, Block: time.Second}}
		for range 2 { // the second call begins a block
			if _, err := m.Take(t.Context(), now, []Charge{c}, make([]Result, 1)); err != nil {
				t.Fatal(err)
			}
		}
		before := m.Stats().EvictedActive
		now = now.Add(after)
		tab := &m.shards[0].tables[m.spaceIndex("a")]
		id, _, _ := m.locateSubject(&Subject{Space: "a", Name: "b"})
		tab.blockUntil(id, block{until: now.UnixMicro() + 1, length: 1}, m.capacity, now.UnixMicro())
		if got := m.Stats().EvictedActive - before; got != active {
			t.Errorf("after %v: %d active blocks were evicted, want %d", after, got, active)
		}
	}
}
