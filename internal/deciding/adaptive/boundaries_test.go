package adaptive

import (
	"math"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

// near reports whether two numbers differ by rounding alone.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// The capacity grows while requests are denied, latency and requests in flight are below their set points, and nothing
// holds it: at once during the search, and after three such ticks later.
func TestController_BeginsToGrow(t *testing.T) {
	t.Parallel()
	room := sample{denied: 1, quantile: 0.9, point: 1, flight: 9, wanted: 10, width: 1, lag: 1.2}
	for name, c := range map[string]struct {
		change func(c *Controller, s *sample)
		want   float64
		reason string
	}{
		"after three ticks": {func(*Controller, *sample) {}, 102, "growing: more is asked for and could be borne"},
		"before":            {func(c *Controller, _ *sample) { c.headroomTicks = 1 }, 100, ""},
		"nothing denied":    {func(_ *Controller, s *sample) { s.denied = 0 }, 100, "demand below the limit"},
		"at the set point":  {func(_ *Controller, s *sample) { s.quantile = s.point }, 100, ""},
		"enough in flight":  {func(_ *Controller, s *sample) { s.flight = s.wanted }, 100, ""},
		"held":              {func(c *Controller, _ *sample) { c.growthHold = 1 }, 100, ""},
		"held no more": {func(c *Controller, _ *sample) { c.growthHold = 0 }, 102,
			"growing: more is asked for and could be borne"},
		"over two ticks": {func(_ *Controller, s *sample) { s.width = 2 }, 101,
			"growing: more is asked for and could be borne"},
		"in the search": {func(c *Controller, _ *sample) { c.searching, c.headroomTicks = 1, 0 }, 140,
			"searching: more is asked for and could be borne"},
		"in the search, late": {func(c *Controller, s *sample) { c.searching, s.lag, s.width = 1, 2.4, 2 }, 110,
			"searching: more is asked for and could be borne"},
	} {
		control, s := &Controller{
			estimates: estimates{capacity: 100, growth: minGrowth}, ticks: ticks{headroomTicks: 2},
		}, room
		c.change(control, &s)
		control.growCapacity(&s)
		if !near(control.capacity, c.want) || control.bound.Why != c.reason {
			t.Errorf("%s: %v, %q; want %v, %q", name, control.capacity, control.bound.Why, c.want, c.reason)
		}
		if grew := control.growth; name == "after three ticks" && !near(grew, 1.3*minGrowth) {
			t.Errorf("%s: grows by %v next", name, grew)
		}
	}
	fast := &Controller{estimates: estimates{capacity: 100, growth: 0.19}, ticks: ticks{headroomTicks: 3}}
	if fast.growCapacity(&room); fast.growth != maxGrowth {
		t.Errorf("grows by %v at last", fast.growth)
	}
}

// The set point follows an upstream that has become slower after more than five ticks in a row above it with the
// target held, and goes back while the latency is well below.
func TestSlowerUpstreamIsLearned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		above           int
		width, quantile float64 // where the set point is 1 and the target 2
		slow, wantSlow  float64
		wantAbove       int
	}{
		"the sixth tick":            {5, 1, 1.3, 1, 1, 6},
		"the sixth tick, slower":    {5, 1, 1.69, 1, 1.09, 6},
		"the fifth":                 {4, 1, 1.69, 1, 1, 5},
		"the sixth of two seconds":  {5, 2, 1.69, 1, 1, 6},
		"less than quiet was":       {5, 1, 1.3, 0.1, 0.65, 6},
		"near its set point":        {5, 1, 1.1, 1, 1, 0},
		"the target nearly reached": {5, 1, 1.7, 1, 1 + 0.3*(1.7/1.3-1), 6},
		"the target missed nearly":  {5, 1, 1.71, 1, 1, 0},
		"below":                     {5, 1, 0.79, 1, 0.98, 0},
		"not quite":                 {5, 1, 0.8, 1, 1, 0},
	} {
		control, s := &Controller{
			estimates: estimates{slowBaseLatency: ewma{c.slow, true}}, ticks: ticks{above: c.above},
		}, sample{
			width: c.width, quantile: c.quantile, point: 1, target: 2}
		control.baseLatency = ewma{0.5, true}
		control.learnSlower(&s)
		if !near(control.slowBaseLatency.value, c.wantSlow) || control.above != c.wantAbove {
			t.Errorf("%s: %v after %d ticks, want %v after %d", name, control.slowBaseLatency.value, control.above,
				c.wantSlow, c.wantAbove)
		}
	}
}

// A target is out of reach after eight ticks at the minimum without fewer requests in flight than four ticks before, or
// after thirty; three good ticks end that.
func TestController_RecognizesUnreachableTargets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		atMin, good       int
		rate, flight      float64
		bad, missed, was  bool
		want              bool
		wantMin, wantGood int
	}{
		"the ninth tick":        {8, 0, 5, 10, true, true, false, true, 9, 0},
		"the eighth":            {7, 0, 5, 10, true, true, false, false, 8, 0},
		"fewer in flight":       {8, 0, 5, 9.9, true, true, false, false, 9, 0},
		"the 31st":              {30, 0, 5, 9, true, true, false, true, 31, 0},
		"the 30th":              {29, 0, 5, 9, true, true, false, false, 30, 0},
		"above the minimum":     {40, 0, 5.1, 10, true, true, false, false, 0, 0},
		"held, though bad":      {8, 0, 5, 10, true, false, false, false, 9, 0},
		"missed once":           {8, 0, 5, 10, true, false, true, true, 9, 0},
		"two good ticks":        {0, 1, 6, 10, false, false, true, true, 0, 2},
		"three good ticks":      {0, 2, 6, 10, false, false, true, false, 0, 3},
		"good ticks that ended": {0, 2, 6, 10, true, true, true, true, 0, 0},
	} {
		control := &Controller{
			min: 5, recent: recent{flight: [5]float64{1, 2, 3, 11, 10}},
			ticks: ticks{atMinTicks: c.atMin, goodTicks: c.good},
		}
		control.bound.Rate, control.bound.Unreachable = c.rate, c.was
		control.updateUnreachable(&sample{flight: c.flight, bad: c.bad, missed: c.missed})
		if control.bound.Unreachable != c.want || control.atMinTicks != c.wantMin || control.goodTicks != c.wantGood {
			t.Errorf("%s: %v after %d and %d good", name, control.bound.Unreachable, control.atMinTicks,
				control.goodTicks)
		}
	}
}

// A second in which latency or failures are exactly at their bounds, or a little above, is judged by the right side of
// the bound.
func TestSampleAtItsBounds(t *testing.T) {
	t.Parallel()
	exact := bucketMiddle(bucketOf(100 * time.Millisecond))
	for name, c := range map[string]struct {
		target            rules.UpstreamTarget
		ok, errors        int64
		missed, bad, over bool
	}{
		"the target":           {rules.UpstreamTarget{Latency: exact, Errors: 0.5}, 1, 0, false, true, false},
		"less":                 {rules.UpstreamTarget{Latency: exact - 1, Errors: 0.5}, 1, 0, true, true, false},
		"errors allowed":       {rules.UpstreamTarget{Latency: time.Minute, Errors: 0.5}, 1, 1, false, true, true},
		"more":                 {rules.UpstreamTarget{Latency: time.Minute, Errors: 0.49}, 1, 1, true, true, true},
		"a third of it":        {rules.UpstreamTarget{Latency: time.Minute, Errors: 0.9}, 3, 1, false, false, false},
		"a tenth":              {rules.UpstreamTarget{Latency: time.Minute, Errors: 0.1}, 9, 1, false, true, false},
		"more than a tenth":    {rules.UpstreamTarget{Latency: time.Minute, Errors: 0.2}, 8, 1, false, true, true},
		"errors of its target": {rules.UpstreamTarget{Latency: time.Minute}, 99, 1, false, true, false},
	} {
		control := New(c.target, 1, 1000)
		control.pool, control.seconds = Measurement{At: begin, OK: c.ok, Errors: c.errors}, 1
		control.pool.Latency.addN(100*time.Millisecond, 10)
		if s := control.newSample(begin); s.missed != c.missed || s.bad != c.bad || s.over != c.over {
			t.Errorf("%s: missed %v, bad %v, over %v: %+v", name, s.missed, s.bad, s.over, s)
		}
	}
	for _, c := range []struct {
		errors, quantile float64
		want             bool
		reason           string
	}{
		{0.3, 2.1, false, "errors"}, {0.31, 2, false, "errors"}, {0.31, 2.1, true, "errors"},
		{0.003, 1.2, false, "latency above its set point"}, {0.0031, 1, false, "errors"},
		{0, 1.1, false, "more requests in flight than its latency allows"},
	} {
		s := sample{errors: c.errors, quantile: c.quantile, point: 1, target: 1}
		if got := s.reasonText(New(rules.UpstreamTarget{}, 1, 2)); s.mostlyFailing() != c.want || got != c.reason {
			t.Errorf("%v of errors, latency %v: failing %v, %q", c.errors, c.quantile, s.mostlyFailing(), got)
		}
	}
}

// Before the upstream is saturated the bound is the most of the range, which grows and shrinks; afterwards it stays
// within the range.
func TestBoundFollowsItsRange(t *testing.T) {
	t.Parallel()
	for _, saturated := range []bool{false, true} {
		c := New(rules.UpstreamTarget{}, 10, 1000)
		c.bound.Saturated = saturated
		if saturated {
			c.bound.Rate = 500
		}
		for _, r := range []struct{ least, most, want float64 }{
			{10, 2000, 500}, {10, 300, 300}, {400, 800, 400}, {400, 1500, 400},
		} {
			c.SetRange(r.least, r.most)
			want := r.most
			if saturated {
				want = r.want
			}
			if c.Bound().Rate != want {
				t.Errorf("%+v, saturated %v: %v, want %v", r, saturated, c.Bound().Rate, want)
			}
		}
	}
}

// Above maxOwnFailures there is no part of the capacity that failures do not take; at it there is.
func TestFailuresThatMayBeTheUpstreamsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ failed, want float64 }{{maxOwnFailures, 90}, {maxOwnFailures + 1e-9, 0.95 * 90}} {
		control := &Controller{
			estimates: estimates{capacity: 90, uncut: 100, failed: ewma{c.failed, true}}, ticks: ticks{growthHold: 1},
		}
		control.lowerByErrors(&sample{errors: 0.5, ok: 1000, width: 1, lag: 1})
		if !near(control.capacity, c.want) {
			t.Errorf("%v fail: %v, want %v", c.failed, control.capacity, c.want)
		}
	}
}
