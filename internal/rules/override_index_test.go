package rules

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// anyOverride draws an override of few targets, so that many overrides meet.
func anyOverride(t *rapid.T, id string) Override {
	actions := []Action{ActionBlock, ActionExempt, ActionShadow}
	o := Override{ID: id, Action: rapid.SampledFrom(actions).Draw(t, "action"),
		Created: time.Unix(int64(rapid.IntRange(1, 3).Draw(t, "created")), 0)}
	if o.Action == ActionBlock && rapid.IntRange(0, 3).Draw(t, "shadow") == 0 {
		o.Mode = hottype.ModeShadow
	}
	if rapid.IntRange(0, 4).Draw(t, "ended") == 0 {
		o.Until = time.Unix(10, 0)
	}
	text := rapid.SampledFrom([]string{"a", "b", "/p", "/"}).Draw(t, "text")
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		o.Key = text + "?id=" + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value")
	case 1:
		o.Key = text + rapid.SampledFrom([]string{"*", "?id=*", "?i*=1*", "?*d=2"}).Draw(t, "pattern")
	case 2:
		o.Resource = text
	case 3:
		o.CIDR = rapid.SampledFrom([]string{"10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32"}).Draw(t, "network")
	default:
		o.Class = text
	}
	return o
}

// found returns what an index says about every target that anyOverride makes, and about malformed requests.
func found(o *Overrides, now time.Time) map[string]Override {
	all := map[string]Override{}
	note := func(what string, v *Override) {
		if v != nil {
			all[what] = *v
		}
	}
	for _, resource := range []string{"a", "b", "/p", "/", "/q"} {
		note("class "+resource, o.FindClass(resource, now))
		note("malformed "+resource, o.Find(canon.AppendMalformed([]byte(resource)), now))
		for _, params := range []string{"", "?id=1", "?id=2", "?id=3"} {
			note(resource+params, o.Find([]byte(resource+params), now))
		}
	}
	for _, addr := range []string{"10.1.2.3", "10.2.2.3", "2001:db8::1"} {
		note(addr, o.FindClient(netip.MustParseAddr(addr), now))
	}
	return all
}

// TestOverrideIndex_FindsAsOneBuiltWhole changes overrides at random, and compares the index with one that is built of
// all of them. Each index that was made before still finds what it found.
func TestOverrideIndex_FindsAsOneBuiltWhole(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	rapid.Check(t, func(t *rapid.T) {
		var static []Override
		for i := range rapid.IntRange(0, 5).Draw(t, "static") {
			static = append(static, anyOverride(t, fmt.Sprint("s", i)))
		}
		x, live := NewOverrideIndex(static), LiveOverrides{}
		// With many overrides patterns are found by their bytes.
		for i := range rapid.SampledFrom([]int{0, 3 * fewPatterns}).Draw(t, "more") {
			live = live.With(fmt.Sprint("p", i), Override{ID: fmt.Sprint("p", i), Action: ActionExempt,
				Key: fmt.Sprintf("a?id=*%d", i), Created: time.Unix(2, 0)})
		}
		var last *Overrides
		var lastFound map[string]Override
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				id := fmt.Sprint("o", rapid.IntRange(0, 12).Draw(t, "id"))
				if live = live.Without(id); rapid.IntRange(0, 2).Draw(t, "put") > 0 {
					live = live.With(id, anyOverride(t, id))
				}
			}
			got, want := x.Update(live), NewOverrides(static, SortedOverrides(live))
			if diff := cmp.Diff(found(want, now), found(got, now)); diff != "" {
				t.Fatalf("of %v and %v: %s", static, SortedOverrides(live), diff)
			}
			if got.OfKeys() != want.OfKeys() || got.OfClients() != want.OfClients() ||
				(got.WithShadow() == nil) != (want.WithShadow() == nil) {
				t.Fatalf("%v, %v, %v", got.OfKeys(), got.OfClients(), got.WithShadow())
			}
			if tried := want.WithShadow(); tried != nil {
				if diff := cmp.Diff(found(tried, now), found(got.WithShadow(), now)); diff != "" {
					t.Fatalf("with shadow, of %v and %v: %s", static, SortedOverrides(live), diff)
				}
			}
			if last != nil {
				if diff := cmp.Diff(lastFound, found(last, now)); diff != "" {
					t.Fatalf("an index changed: %s", diff)
				}
			}
			last, lastFound = got, found(got, now)
		}
		if x.Update(LiveOverrides{}); rapid.Bool().Draw(t, "emptied") && len(x.entries) > 0 {
			t.Fatalf("%d entries are left", len(x.entries))
		}
	})
}

// manyOverrides returns n overrides of each kind of target in turn.
func manyOverrides(n int) (live LiveOverrides) {
	for i := range n {
		o := Override{ID: fmt.Sprint("o", i), Action: ActionBlock, Created: time.Unix(1e9, 0)}
		switch i % 4 {
		case 0, 1:
			o.Key = fmt.Sprint("topic?id=", i)
		case 2:
			o.Key = fmt.Sprintf("topic?id=%d*", i)
		case 3:
			o.Client = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String()
		}
		live = live.With(o.ID, o)
	}
	return live
}

// BenchmarkOverrideChange_Index puts one override of a kind and removes it again.
func BenchmarkOverrideChange_Index(b *testing.B) {
	for kind, o := range map[string]Override{"key": {Key: "topic?id=x"}, "pattern": {Key: "topic?id=x*"},
		"client": {Client: "192.0.2.1"}} {
		o.ID, o.Action = "x", ActionBlock
		for _, n := range []int{10, 10_000} {
			x, live := NewOverrideIndex(nil), manyOverrides(n)
			x.Update(live)
			b.Run(fmt.Sprint(kind, "/", n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					x.Update(live.With("x", o))
					x.Update(live)
				}
			})
		}
	}
}
