package changes

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// drawOverride draws an override of few targets, times and modes, so that many overrides meet.
func drawOverride(t *rapid.T, id string) rules.Override {
	created := rapid.Int64Range(1, 3).Draw(t, "created")
	o := rules.Override{ID: id, Action: rules.ActionBlock, Created: time.Unix(created, 0)}
	if rapid.IntRange(0, 3).Draw(t, "shadow") == 0 {
		o.Mode = hottype.ModeShadow
	}
	if rapid.Bool().Draw(t, "ends") {
		o.Until = time.Unix(rapid.Int64Range(100, 120).Draw(t, "until"), 0)
	}
	if rapid.IntRange(0, 4).Draw(t, "scheduled") == 0 {
		o.Schedule = rules.Schedule{From: "0 20 * * *", For: 2 * time.Hour}
	}
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		o.Key = rapid.SampledFrom([]string{"a?id=1", "a?id=*", "client 10.1.2.3"}).Draw(t, "key")
	case 1:
		o.Client = "10.1.2.3"
	default:
		o.Class = "c"
	}
	return o
}

// listWhole returns the same as [Catalog.First] of all overrides, from the overrides alone.
func listWhole(set *rules.Set, live []rules.Override, now time.Time) []View {
	views := []View{}
	type place struct {
		of   rules.Target
		mode hottype.Mode
	}
	replaced := map[place]bool{}
	for _, o := range live {
		views = append(views, Viewed(o, SourceLive, now))
		if o.Schedule.IsZero() {
			replaced[place{o.Target(), o.Mode}] = true
			replaced[place{o.Target(), hottype.ModeShadow}] = true
		}
	}
	slices.SortStableFunc(views, func(a, b View) int { return b.Created.Compare(a.Created) })
	for _, o := range set.Overrides {
		if !o.Expired(now) && !replaced[place{o.Target(), o.Mode}] {
			views = append(views, Viewed(o, SourceFile, now))
		}
	}
	return views
}

// firstOf returns the first override of a list for which is returns true, or nil.
func firstOf(list []rules.Override, is func(rules.Override) bool) *rules.Override {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return &list[i]
	}
	return nil
}

// TestCatalogs_AgreeWithOneMadeWhole changes overrides, rules and time at random, and asks for catalogs of the present
// overrides and of earlier ones in turn, as routes do that read the store beside the page. Each catalog has what the
// overrides have that did not end, and keeps it.
func TestCatalogs_AgreeWithOneMadeWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sets := []*rules.Set{{}, {}}
		for _, set := range sets {
			for i := range rapid.IntRange(0, 3).Draw(t, "file") {
				set.Overrides = append(set.Overrides, drawOverride(t, fmt.Sprint("f", i)))
			}
		}
		var x Catalogs
		set, now, states := sets[0], time.Unix(100, 0), []rules.LiveOverrides{{}}
		var last *Catalog
		var lastViews []View
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			live := states[len(states)-1]
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				id := fmt.Sprint("o", rapid.IntRange(0, 5).Draw(t, "id"))
				if live = live.Without(id); rapid.IntRange(0, 2).Draw(t, "put") > 0 {
					live = live.With(id, drawOverride(t, id))
				}
			}
			states = append(states, live)
			if rapid.IntRange(0, 3).Draw(t, "earlier") == 0 {
				live = rapid.SampledFrom(states).Draw(t, "state")
			}
			if rapid.IntRange(0, 5).Draw(t, "other rules") == 0 {
				set = rapid.SampledFrom(sets).Draw(t, "rules")
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
			c := x.CatalogOf(set, live, now)
			expired := func(o rules.Override) bool { return o.Expired(now) }
			left := slices.DeleteFunc(rules.SortedOverrides(live), expired)
			checkCatalog(t, c, set, left, now)
			if last != nil {
				if views, _ := last.First(math.MaxInt); !cmp.Equal(views, lastViews) {
					t.Fatalf("a catalog changed: %s", cmp.Diff(lastViews, views))
				}
			}
			last = c
			lastViews, _ = c.First(math.MaxInt)
			if len(x.held) != len(left) {
				t.Fatalf("%d overrides are held, want %d", len(x.held), len(left))
			}
		}
	})
}

// checkCatalog compares a catalog with the live overrides that have not ended.
func checkCatalog(t *rapid.T, c *Catalog, set *rules.Set, live []rules.Override, now time.Time) {
	want := listWhole(set, live, now)
	n := rapid.IntRange(0, len(want)+1).Draw(t, "n")
	if views, all := c.First(n); all != len(want) || !cmp.Equal(views, want[:min(n, len(want))]) {
		t.Fatalf("of %d: %s", all, cmp.Diff(want[:min(n, len(want))], views))
	}
	offset := rapid.IntRange(0, 9).Draw(t, "offset")
	for _, find := range []string{"", "f", "10.1"} {
		matching := slices.DeleteFunc(slices.Clone(want), func(v View) bool { return !v.contains(find) })
		begin := min(offset, len(matching))
		page := matching[begin:min(begin+n, len(matching))]
		if views, matched := c.page(find, offset, n); matched != len(matching) || !slices.EqualFunc(views, page,
			func(a, b View) bool { return cmp.Equal(a, b) }) {
			t.Fatalf("%q from %d, %d: %d, %s", find, offset, n, matched, cmp.Diff(page, views))
		}
	}
	for _, v := range want {
		if got := c.viewWithID(v.ID); got == nil || !cmp.Equal(*got, v) {
			t.Fatalf("%s: %v, want %v", v.ID, got, v)
		}
	}
	if c.viewWithID("none") != nil || c.liveWithID("f0") != nil {
		t.Fatal("an absent override is found")
	}
	o := drawOverride(t, "new")
	if got, want := c.replacedBy(o), firstOf(live, o.Replaces); !cmp.Equal(got, want) {
		t.Fatalf("%v replaces %v, want %v", o, got, want)
	}
	isActive := func(l rules.Override) bool { return l.Target() == o.Target() && l.HoldsAt(now) }
	if got, want := c.ActiveOn(o), firstOf(live, isActive); !cmp.Equal(got, want) {
		t.Fatalf("active on %v: %v, want %v", o, got, want)
	}
	index, addr := rules.NewOverrides(set.Overrides, live), netip.MustParseAddr("10.1.2.3")
	if got, want := c.Index.FindClient(addr, now), index.FindClient(addr, now); !cmp.Equal(got, want) {
		t.Fatalf("found %v, want %v", got, want)
	}
	found := c.Index.Find([]byte("a?id=1"), now)
	if want := index.Find([]byte("a?id=1"), now); !cmp.Equal(found, want) {
		t.Fatalf("found %v, want %v", found, want)
	}
	if v := c.ViewOf(found); found != nil && (v.Source == SourceLive) != strings.HasPrefix(found.ID, "o") {
		t.Fatalf("%v is of %s", found, v.Source)
	}
}
