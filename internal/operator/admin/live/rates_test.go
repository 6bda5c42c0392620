package live

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

var t0 = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// at is a report of limiter "a" some time after t0.
func at(after time.Duration, allowed, hot, key uint64) hottype.LimiterReport {
	return hottype.LimiterReport{Instance: "a", At: t0.Add(after), Allowed: allowed,
		Denied: hottype.Denials{hottype.ReasonHot: hot},
		Keys:   []hottype.KeyDecisions{{Key: "topic?id=42", Allowed: key, Cached: key}}}
}

func TestRatesSequence(t *testing.T) {
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	r := newRates()
	for i, c := range []struct {
		now                      time.Duration // our clock
		report                   hottype.LimiterReport
		known                    bool
		limiters                 int
		allowed, denied, keySeen float64
	}{
		{0, at(0, 5000, 100, 50), false, 1, 0, 0, 0},              // earlier decisions belong to no second
		{1 * s, at(1*s, 5300, 110, 60), true, 1, 300, 10, 10},     //
		{2 * s, at(1*s, 5300, 110, 60), true, 1, 300, 10, 10},     // the same report again
		{2 * s, at(1*s+ms, 5301, 110, 60), true, 1, 300, 10, 10},  // too near to tell
		{4 * s, at(4*s, 5900, 110, 90), true, 1, 200, 0, 10},      // three seconds in one
		{5 * s, at(5*s, 100, 4, 7), true, 1, 100, 4, 7},           // it started anew
		{6 * s, at(-9*s, 1000, 9, 9), false, 1, 0, 0, 0},          // its clock stepped back
		{7 * s, at(-8*s, 1020, 9, 9), true, 1, 20, 0, 0},          // and runs from there
		{12 * s, at(-8*s, 1020, 9, 9), true, 1, 20, 0, 0},         // late
		{13 * s, at(-8*s, 1020, 9, 9), false, 0, 0, 0, 0},         // silent
		{90 * s, at(75*s, 9999, 9, 9), false, 1, 0, 0, 0},         // back after so long that there is no rate
		{91 * s, at(76*s, 10099, 9, 9), true, 1, 100, 0, 0},       //
		{93 * s, at(78*s+3*60*s, 99999, 9, 9), false, 1, 0, 0, 0}, // its clock stepped forward
	} {
		now := t0.Add(c.now)
		r.add(now, []hottype.LimiterReport{c.report})
		sp := r.now(now)
		if sp.Known != c.known || sp.Limiters != c.limiters || sp.Allowed != c.allowed ||
			sp.Denied[hottype.ReasonHot] != c.denied ||
			sp.Keys["topic?id=42"] != (keySpeed{Allowed: c.keySeen, Served: c.keySeen}) {
			t.Errorf("line %d: %+v", i, sp)
		}
	}
	if r.total.Allowed != 300+600+100+20+100 {
		t.Errorf("total %+v", r.total)
	}
}

// TestTotalsAreWhatTheLimitersCounted: over any history of reports the totals
// are the sum of each limiter's growth since its first report, whatever the
// order and whichever reports are missed.
func TestTotalsAreWhatTheLimitersCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r, first, last := newRates(), map[string]hottype.LimiterReport{}, map[string]hottype.LimiterReport{}
		counts := map[string]uint64{}
		for i := range rapid.IntRange(1, 40).Draw(rt, "seconds") {
			now := t0.Add(time.Duration(i) * time.Second)
			var reports []hottype.LimiterReport
			for n := range 3 {
				id := fmt.Sprint(n)
				counts[id] += rapid.Uint64Range(0, 1000).Draw(rt, "decided")
				if rapid.IntRange(0, 3).Draw(rt, "seen") == 0 {
					continue
				}
				rep := hottype.LimiterReport{Instance: id, At: now, Allowed: counts[id],
					Denied: hottype.Denials{hottype.ReasonBlocked: counts[id] / 2, hottype.ReasonStore: 7}}
				if _, ok := first[id]; !ok {
					first[id] = rep
				}
				last[id] = rep
				reports = append(reports, rep)
			}
			r.add(now, reports)
		}
		var want decided
		for id, l := range last {
			want.Allowed += l.Allowed - first[id].Allowed
			want.Denied[hottype.ReasonBlocked] += l.Denied[hottype.ReasonBlocked] -
				first[id].Denied[hottype.ReasonBlocked]
		}
		if r.total != want {
			rt.Fatalf("got %+v, want %+v", r.total, want)
		}
	})
}

func TestLimitersAreBounded(t *testing.T) {
	t.Parallel()
	r := newRates()
	for i := range maxInstances + 100 {
		r.add(t0, []hottype.LimiterReport{{Instance: fmt.Sprint(i), At: t0}})
	}
	if n := len(r.instances); n != maxInstances {
		t.Errorf("%d limiters are kept", n)
	}
	r.add(t0.Add(2*time.Minute), nil)
	if n := len(r.instances); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := &recent{}
	var given []point
	for i := range 3 * keepPoints {
		h.points = appendBounded(h.points, point{Allowed: float64(i)}, keepPoints)
		h.changes = appendBounded(h.changes, Change{Seq: uint64(i)}, keepChanges)
		if i == keepPoints {
			given = h.points // what a hello may still be reading
		}
	}
	if len(h.points) != keepPoints || len(h.changes) != keepChanges {
		t.Errorf("%d points, %d changes", len(h.points), len(h.changes))
	}
	if given[0].Allowed != 1 || given[keepPoints-1].Allowed != keepPoints || h.points[0].Allowed != 2*keepPoints {
		t.Errorf("a list that was given away changed: %v … %v", given[0], given[keepPoints-1])
	}
}
