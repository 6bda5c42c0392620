package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

var t0 = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// at is a report of limiter "a" some time after t0. Beside the allowed requests a response cache served as many
// requests of key as the limiter allowed.
func at(after time.Duration, allowed, hot, key uint64) report.Limiter {
	return report.Limiter{Instance: "a", At: t0.Add(after), Allowed: allowed + key, Served: key,
		Denied: report.Denials{hottype.ReasonHot: hot},
		Keys:   []report.KeyDecisions{{Key: "topic?id=42", Allowed: 2 * key, Cached: key}}}
}

func TestRates_FollowReports(t *testing.T) {
	t.Parallel()
	const s, ms = time.Second, time.Millisecond
	r := newRates()
	for i, c := range []struct {
		now                      time.Duration // our clock
		report                   report.Limiter
		known                    bool
		limiters                 int
		allowed, denied, keySeen float64
	}{
		{0, at(0, 5000, 100, 50), false, 1, 0, 0, 0},              // earlier decisions belong to no second
		{1 * s, at(1*s, 5300, 110, 60), true, 1, 300, 10, 10},     //
		{2 * s, at(1*s, 5300, 110, 60), true, 1, 300, 10, 10},     // the same report again
		{2 * s, at(1*s+ms, 5301, 110, 60), true, 1, 300, 10, 10},  // too near to tell
		{4 * s, at(4*s, 5900, 110, 90), true, 1, 200, 0, 10},      // three seconds in one
		{5 * s, at(5*s, 100, 4, 7), true, 1, 100, 4, 7},           // it was restarted
		{6 * s, at(-9*s, 1000, 9, 9), false, 1, 0, 0, 0},          // its clock stepped back
		{7 * s, at(-8*s, 1020, 9, 9), true, 1, 20, 0, 0},          // and runs from there
		{12 * s, at(-8*s, 1020, 9, 9), true, 1, 20, 0, 0},         // late
		{13 * s, at(-8*s, 1020, 9, 9), false, 0, 0, 0, 0},         // silent
		{90 * s, at(75*s, 9999, 9, 9), false, 1, 0, 0, 0},         // back after so long that there is no rate
		{91 * s, at(76*s, 10099, 9, 9), true, 1, 100, 0, 0},       //
		{93 * s, at(78*s+3*60*s, 99999, 9, 9), false, 1, 0, 0, 0}, // its clock stepped forward
	} {
		now := t0.Add(c.now)
		r.add(now, []report.Limiter{c.report})
		sp := r.totalSpeed(now)
		if sp.Known != c.known || sp.Limiters != c.limiters || sp.Allowed != c.allowed || sp.Served != c.keySeen ||
			sp.Denied[hottype.ReasonHot] != c.denied ||
			sp.Keys["topic?id=42"] != (keySpeed{Allowed: c.keySeen, Served: c.keySeen}) {
			t.Errorf("line %d: %+v", i, sp)
		}
	}
}

func TestRates_BoundLimiters(t *testing.T) {
	t.Parallel()
	r := newRates()
	for i := range maxInstances + 100 {
		r.add(t0, []report.Limiter{{Instance: fmt.Sprint(i), At: t0}})
	}
	if n := len(r.instances); n != maxInstances {
		t.Errorf("%d limiters are kept", n)
	}
	r.add(t0.Add(2*time.Minute), nil)
	if n := len(r.instances); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestAppendBounded_KeepsNewest(t *testing.T) {
	t.Parallel()
	h := &recent{}
	var given []point
	for i := range 3 * keepPoints {
		h.points = appendBounded(h.points, point{Allowed: float64(i)}, keepPoints)
		h.changes = appendBounded(h.changes, Change{Seq: uint64(i)}, keepChanges)
		if i == keepPoints {
			given = h.points // a hello event may still be reading it
		}
	}
	if len(h.points) != keepPoints || len(h.changes) != keepChanges {
		t.Errorf("%d points, %d changes", len(h.points), len(h.changes))
	}
	if given[0].Allowed != 1 || given[keepPoints-1].Allowed != keepPoints || h.points[0].Allowed != 2*keepPoints {
		t.Errorf("a list that was given away changed: %v … %v", given[0], given[keepPoints-1])
	}
}
