package gate

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/rules"
)

// TestGate_KeepsTheCountersOfAnOverrideThatStays changes the live overrides and the rules at random. After each change
// the gate has a slot for each override, with the counters that it had before if its name stayed, and no other slot.
func TestGate_KeepsTheCountersOfAnOverrideThatStays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		file := []rules.Override{{ID: "o1", Client: "192.0.2.1", Action: rules.ActionLimit, Rate: 1},
			{Key: "topic?id=1", Action: rules.ActionBlock}}
		sets := []*rules.Set{{}, {Overrides: file}, {Overrides: file[1:]}}
		g, live := New(Config{Rules: sets[0]}), rules.LiveOverrides{}
		before := map[overrideID]*overrideState{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			id := fmt.Sprint("o", rapid.IntRange(0, 3).Draw(t, "id"))
			// Two keys of the set may hold overrides with the same name.
			key := id + rapid.SampledFrom([]string{"", "#7"}).Draw(t, "key")
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				g.SetRules(sets[rapid.IntRange(0, 2).Draw(t, "rules")])
			case 1, 2:
				live = live.Without(key)
				g.SetLive(live)
			default:
				live = live.With(key, rules.Override{ID: id, Action: rules.ActionLimit,
					Rate: float64(rapid.IntRange(1, 2).Draw(t, "rate")), Client: "192.0.2.1"})
				g.SetLive(live)
			}
			st, want := g.cur.Load(), map[overrideID]*overrideState{}
			list, _ := g.Overrides()
			for _, o := range list {
				slot := st.overrideSlot(&o)
				if slot.of != idOf(&o) {
					t.Fatalf("the slot of %v is that of %v", idOf(&o), slot.of)
				}
				if old := before[slot.of]; old != nil && old != slot.state {
					t.Fatalf("%v has new counters", slot.of)
				}
				if (slot.clientLimit != nil) != (o.Client != "") {
					t.Fatalf("%v has limit %v", o, slot.clientLimit)
				}
				want[slot.of] = slot.state
			}
			got := map[*overrideState]bool{}
			for o := range st.eachOverride() {
				got[o] = true
			}
			for _, o := range want {
				delete(got, o)
			}
			if len(got) > 0 {
				t.Fatalf("%d slots of no override: %v", len(got), list)
			}
			before = maps.Clone(want)
		}
	})
}

// BenchmarkOverrideChange_Gate puts one override and removes it again.
func BenchmarkOverrideChange_Gate(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		live := rules.LiveOverrides{}
		for i := range n {
			id := fmt.Sprint("o", i)
			live = live.With(id, rules.Override{ID: id, Key: fmt.Sprint("topic?id=", i), Action: rules.ActionBlock,
				Created: time.Unix(1e9, 0)})
		}
		g := New(Config{})
		g.SetLive(live)
		more := live.With("x", rules.Override{ID: "x", Key: "topic?id=x", Action: rules.ActionBlock})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.SetLive(more)
				g.SetLive(live)
			}
		})
	}
}
