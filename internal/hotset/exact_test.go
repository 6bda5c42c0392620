package hotset

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

// Whoever reads first in the map, the publisher that is over first is the oldest one, and of
// several the one whose name comes first.
func TestOldestPublisher(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		judged map[string]float64
		want   string
	}{
		{map[string]float64{"keep": 0}, ""},
		{map[string]float64{"keep": 0, "b": 2, "c": 1, "d": 3}, "c"},
		{map[string]float64{"keep": 0, "b": 1, "c": 1, "d": 1, "e": 3}, "b"},
		{map[string]float64{"keep": 0, "a": 9, "b": 8, "c": 7, "d": 6}, "d"},
	} {
		for range 20 { // a map's order is another one each time
			m := Replica{sets: map[string]*published{}}
			for name, at0 := range c.judged {
				m.sets[name] = &published{set: report.HotSet{At: at(at0)}}
			}
			if got := m.oldestPublisher("keep"); got != c.want {
				t.Fatalf("%v: %q, want %q", c.judged, got, c.want)
			}
		}
	}
}

// The heaviest client of two parts of a key, and its share of both.
func TestHeaviestClient_OfTwo(t *testing.T) {
	t.Parallel()
	part := func(client string, share, rate float64) *hottype.HotKey {
		return &hottype.HotKey{HeaviestClient: client, ClientShare: share, Rate: rate}
	}
	for _, c := range []struct {
		a, b  *hottype.HotKey
		name  string
		share float64
	}{
		{part("x", 0.5, 10), part("x", 0.25, 30), "x", 0.3125},
		{part("x", 0.5, 10), part("y", 0.25, 30), "y", 0.1875},
		{part("x", 0.5, 10), part("y", 0.125, 30), "x", 0.125},
		{part("y", 0.5, 10), part("x", 0.25, 20), "x", 5. / 30}, // the name settles a tie
		{part("x", 0.5, 10), part("y", 0.25, 20), "x", 5. / 30},
		{part("", 0, 10), part("y", 0.5, 10), "y", 0.25},
		{part("", 0.5, 10), part("", 0.5, 10), "", 0},
		{part("x", 0.5, 0), part("y", 0.5, 0), "x", 0},
		{part("x", 1, 0), part("x", 1, 0.5), "x", 1},
	} {
		if name, share := heaviestClient(c.a, c.b); name != c.name || share != c.share {
			t.Errorf("%+v and %+v: %q %v, want %q %v", c.a, c.b, name, share, c.name, c.share)
		}
	}
}

// The share of a key of two publishers' requests; one that does not say its own counts with the other's.
func TestMergedShare_OfTwo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ aShare, aRate, bShare, bRate, want float64 }{
		{0.5, 10, 0.25, 10, 1. / 3}, {0.5, 10, 0, 10, 0.5}, {0, 10, 0.25, 10, 0.25}, {0.5, 0, 0.25, 10, 0.25},
		{0.5, 10, 0.25, 0, 0.5}, {0, 0, 0, 0, 0}, {1, 0.5, 1, 0.5, 1},
	} {
		if got := mergedShare(&hottype.HotKey{Share: c.aShare, Rate: c.aRate}, &hottype.HotKey{Share: c.bShare,
			Rate: c.bRate}); got !=
			c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The entries of two publishers for one key are merged in every field, in either order.
func TestMergeInFull(t *testing.T) {
	t.Parallel()
	a := hottype.HotKey{Key: "k", Rule: "a", Rate: 10, Lower: 9, Upper: 11, Baseline: 3, Clients: 4, PeakRate: 50,
		Since: at(2),
		Until: at(9), Why: "rate+share", Share: 0.5}
	b := hottype.HotKey{Key: "k", Rule: "b", Rate: 20, Lower: 18, Upper: 22, Baseline: 6, Clients: 7, PeakRate: 25,
		Since: at(1),
		Until: at(8), Why: "growth+rate", Share: 0.5}
	want := hottype.HotKey{Key: "k", Rule: "a", Rate: 30, Lower: 27, Upper: 33, Baseline: 9, Clients: 7, PeakRate: 50,
		Since: at(1),
		Until: at(9), Why: "growth+rate+share", Share: 0.5}
	for _, now := range []float64{0, 7.999999} {
		for _, got := range []*hottype.HotKey{merge(&a, &b, at(now)), merge(&b, &a, at(now))} {
			if diff := gocmp.Diff(*got, want); diff != "" {
				t.Error(diff)
			}
		}
	}
	over := a
	over.Since = at(1)
	if diff := gocmp.Diff(*merge(&b, &a, at(8)), over); diff != "" { // b has expired by then
		t.Error(diff)
	}
	b.Until = a.Until
	if got := merge(&a, &b, at(0)); got.Rule != "b" || merge(&b, &a, at(0)).Rule != "b" || got.PeakRate != 50 {
		t.Errorf("of two that end together: %+v", got)
	}
	a.PeakRate = 25
	if got := merge(&a, &b, at(0)); got.PeakRate != 30 {
		t.Errorf("peak %v below the rate of both", got.PeakRate)
	}
	for _, c := range [][3]string{{"rate", "", "rate"}, {"", "rate", "rate"}, {"rate", "rate", "rate"}, {"b+a", "a+c",
		"a+b+c"}} {
		if got := joinReasons(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q: %q", c[0], c[1], got)
		}
	}
}

// Stats counts the publishers by state: one is live, one has no input, one is stale and one has stopped.
func TestStatsOfPublishers(t *testing.T) {
	t.Parallel()
	var m Replica
	if got, want := m.Stats(at(0)), (Stats{AgeSeconds: -1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	m.Replace("silent", set(4, 0, hot("k", 1, 3), hot("l", 1, 3)))
	live := set(9, 5, hot("k", 1, 10), hot("m", 1, 10))
	live.Loops = []hottype.HotKey{hot("n", 1, 10)}
	m.Replace("live", live)
	noInput := set(3, 5.5, hot("o", 1, 10))
	noInput.NoInput = true
	m.Replace("idle", noInput)
	m.Replace("live", set(9, 6))
	stopped := set(5, 4, hot("k", 1, 2))
	stopped.Last = true
	m.Replace("a", stopped)
	if first := m.FirstPublisher(at(6)); first != "idle" {
		t.Errorf("%q is the first publisher", first)
	}
	got := m.Stats(at(6))
	want := Stats{Keys: 4, Loops: 1, KeysKept: 1, Publishers: 2, NoInputPublishers: 1, StalePublishers: 1, Version: 9,
		AgeSeconds: 0.5, Replaced: 4, Ignored: 1}
	if diff := gocmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
	if got := m.Stats(at(10)); got.KeysKept != 4 || got.StalePublishers != 0+1 {
		t.Errorf("when all have ended: %+v", got)
	}
	m.Entries(at(9000))
	if got := m.Stats(at(9000)); got.ExpiredPublishers != 4 || got.Keys != 0 || got.Publishers != 0 {
		t.Errorf("hours later: %+v", got)
	}
}

// A publisher of this process goes on after the last version under its name.
func TestVersionsOfALocalPublisher(t *testing.T) {
	t.Parallel()
	var m Replica
	l := NewLocalPublisher(&m, "a")
	for _, c := range [][2]uint64{{5, 5}, {0, 6}, {0, 7}, {9, 9}, {9, 10}} {
		if err := l.Publish(context.Background(), set(c[0], 1)); err != nil {
			t.Fatal(err)
		}
		if got := m.Stats(at(1)).Version; got != c[1] {
			t.Errorf("version %d became %d, want %d", c[0], got, c[1])
		}
	}
}

// FirstPublisher returns the first publisher by name of the received ones, until the very end of the time in which a
// publisher may be silent.
func TestFirstOfThoseHeard(t *testing.T) {
	t.Parallel()
	var m Replica
	m.Replace("a", set(1, 0))
	m.Replace("b", set(1, 1))
	m.Replace("c", set(1, 1))
	for now, want := range map[float64]string{0: "a", 5: "a", 5.000001: "b", 6: "b", 6.000001: ""} {
		if got := m.FirstPublisher(at(now)); got != want {
			t.Errorf("at %v: %q, want %q", now, got, want)
		}
	}
}

// Rates travel by turns: those far off first, the others from where the last turn ended.
func TestChooseUpdates_ByTurns(t *testing.T) {
	t.Parallel()
	values := func(far ...int) (list []rateUpdate) {
		for place := range 10 {
			if place%2 == 0 {
				list = append(list, rateUpdate{place: place, far: slices.Contains(far, place)})
			}
		}
		return list
	}
	for _, c := range []struct {
		far        []int
		n, turn    int
		want, next string
	}{
		{nil, 0, 3, "[]", "3"}, {nil, 2, 0, "[0 2]", "3"}, {nil, 2, 3, "[4 6]", "7"}, {nil, 2, 7, "[8 0]", "1"},
		{nil, 2, 8, "[8 0]", "1"}, {nil, 9, 4, "[4 6 8 0 2]", "3"}, {[]int{6}, 2, 2, "[6 2]", "3"},
		{[]int{2, 6, 8}, 2, 5, "[2 6]", "5"}, {[]int{0, 2, 4, 6, 8}, 9, 5, "[0 2 4 6 8]", "5"}, {nil, 1, 9, "[0]", "1"},
	} {
		got, turn := chooseUpdates(values(c.far...), c.n, c.turn)
		places := []int{}
		for _, v := range got {
			places = append(places, v.place)
		}
		if fmt.Sprint(places) != c.want || fmt.Sprint(turn) != c.next {
			t.Errorf("%+v: %v, turn %d", c, places, turn)
		}
	}
	for _, c := range []struct {
		have, next float64
		want       bool
	}{{10, 15, false}, {10, 15.1, true}, {15, 10, false}, {15.1, 10, true}, {0, 0, false}, {0, 1, true}} {
		if got := isFar(c.have, c.next); got != c.want {
			t.Errorf("%v after %v: %v", c.next, c.have, got)
		}
	}
}

// The end that most entries have travels once.
func TestCommonUntil(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ends []float64
		want time.Time
	}{
		{nil, time.Time{}}, {[]float64{3}, at(3)}, {[]float64{3, 4, 4}, at(4)}, {[]float64{4, 4, 3}, at(4)},
		{[]float64{3, 4, 4, 5, 4}, at(4)}, {[]float64{4, 3, 4}, at(4)}, {[]float64{5, 5, 6, 6, 5}, at(5)},
	} {
		var keys []hottype.HotKey
		for _, end := range c.ends {
			keys = append(keys, hot("k", 1, end))
		}
		if got := commonUntil(keys); !got.Equal(c.want) {
			t.Errorf("%v: %v", c.ends, got)
		}
	}
}

// How many entries a delta names, and times as readers get them.
func TestDeltaInNumbers(t *testing.T) {
	t.Parallel()
	keys := []hottype.HotKey{hot("a", 1, 5), hot("b", 1, 5), hot("c", 1, 5), hot("d", 1, 5)}
	ids := []ID{{Key: "e"}, {Key: "f"}, {Key: "g"}, {Key: "h"}, {Key: "i"}, {Key: "j"}, {Key: "k"}, {Key: "l"}}
	d := Delta{Keys: ListDelta{Put: keys[:1], Gone: ids[:2]}, Loops: ListDelta{Put: keys, Gone: ids}}
	if d.Len() != 1+2+4+8 {
		t.Errorf("%d entries", d.Len())
	}
	late := hot("a", 1, 5)
	late.Since, late.Until = at(1).Add(999), at(5).Add(1)
	var trail DeltaEncoder
	held := trail.Full(report.HotSet{At: at(1).Add(7), Keys: []hottype.HotKey{late}, Loops: []hottype.HotKey{late}})
	for _, got := range []time.Time{held.At, held.Keys[0].Since, held.Loops[0].Since} {
		if !got.Equal(at(1)) {
			t.Errorf("%v", got)
		}
	}
	if !held.Keys[0].Until.Equal(at(5)) || !held.Loops[0].Until.Equal(at(5)) ||
		!truncateToMicros(time.Time{}).IsZero() {
		t.Errorf("%+v", held)
	}
}
