package adaptive

import (
	"math"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

var begin = time.Unix(1_700_000_000, 0)

func parse(t *testing.T) *rules.Set {
	t.Helper()
	set, err := rules.Parse("f.yaml", []byte(`
upstreams: [{name: default, target: {latency: 250ms}}, {name: search}]
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {adaptive: true, min: 10, max: 1000}}
  - {name: find, match: {path: /find}, params: [q], hot: {rate: 1}, limit: {adaptive: true, min: 1, max: 50, upstream: search}}
`))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// makeReport returns the report of a limiter that saw n quick answers in the second before.
func makeReport(instance string, second, n int) report.Limiter {
	var h Histogram
	h.addN(50*time.Millisecond, int64(n))
	return report.Limiter{Instance: instance, At: begin.Add(time.Duration(second) * time.Second),
		Upstreams: []report.Upstream{{
			Name: "default", Seconds: 1, OK: int64(n), Cold: int64(n), InFlight: float64(n) / 20, Latency: h.Pairs(),
			LatencySum: h.sum,
		}}}
}

func TestControllers(t *testing.T) {
	t.Parallel()
	set := parse(t)
	var c Controllers
	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }
	if got := c.Tick(at(0), set, nil, nil); len(got) != 0 {
		t.Errorf("without a report: %+v", got)
	}
	// Of two limiters, the sum; nothing is known of the other upstream.
	both := []report.Limiter{makeReport("a", 1, 100), makeReport("b", 1, 300)}
	got := c.Tick(at(1), set, nil, both)
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	b := got[0]
	if b.Name != "default" || b.Rate != 1000 || b.Saturated || b.Limiters != 2 || b.InFlight != 20 ||
		b.TargetSeconds != 0.25 ||
		math.Abs(b.LatencySeconds-0.05) > 0.004 {
		t.Errorf("%+v", b)
	}
	// The cap is there before any onset: throughput times the set point.
	if b.InFlightCap < 400*0.1 || b.InFlightCap > 400*0.25 {
		t.Errorf("cap %v", b.InFlightCap)
	}
	// The same reports again are not new, and hold for a minute after the last new ones.
	for _, second := range []int{2, 10, 60} {
		if held := c.Tick(at(second), set, nil, both); len(held) != 1 || held[0].Rate != b.Rate ||
			held[0].InFlightCap != b.InFlightCap {
			t.Errorf("second %d: %+v", second, held)
		}
	}
	if gone := c.Tick(at(62), set, nil, both); len(gone) != 0 {
		t.Errorf("after a minute: %+v", gone)
	}
}

// Two hot keys have twice the range of a single key.
func TestRangeFollowsTheHotKeys(t *testing.T) {
	t.Parallel()
	set := parse(t)
	var c Controllers
	hot := []hottype.HotKey{{Key: "topic?id=1"}, {Key: "topic?id=2"}, {Key: "find?q=a"}, {Key: "gone?x=1"}}
	got := c.Tick(begin, set, hot, []report.Limiter{makeReport("a", 0, 100)})
	if len(got) != 1 || got[0].MinSum != 20 || got[0].MaxSum != 2000 || got[0].Rate != 2000 {
		t.Errorf("%+v", got)
	}
}

// A faulty or forged report changes nothing.
func TestNonsenseIsNoReport(t *testing.T) {
	t.Parallel()
	set := parse(t)
	for name, spoil := range map[string]func(u *report.Upstream){
		"no time":     func(u *report.Upstream) { u.Seconds = 0 },
		"negative":    func(u *report.Upstream) { u.Hot = -1 },
		"too much":    func(u *report.Upstream) { u.OK = math.MaxInt64 },
		"not a count": func(u *report.Upstream) { u.InFlight = math.NaN() },
	} {
		var c Controllers
		r := makeReport("a", 0, 100)
		spoil(&r.Upstreams[0])
		if got := c.Tick(begin, set, nil, []report.Limiter{r}); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Requests that are reported only at their end count as in flight by the time that they took.
func TestToldRequestsAreInFlight(t *testing.T) {
	t.Parallel()
	var r recorder
	r.takeReport(begin)
	r.RecordOutcomes(begin, 500*time.Millisecond, Answered, 10)
	r.RecordOutcomes(begin, time.Millisecond, Failed, 1) // quick: it shows nothing about the latency
	r.RecordOutcomes(begin, time.Second, Failed, 1)
	got := r.takeReport(begin.Add(time.Second))
	if got.OK != 10 || got.Errors != 2 || math.Abs(got.InFlight-6.001) > 1e-9 {
		t.Errorf("%+v", got)
	}
}

// Of requests that are reported only at their end, the cold ones leave their slots free, and no more than those.
func TestToldColdRequestsTakePlaces(t *testing.T) {
	t.Parallel()
	var all Upstreams
	all.Configure(parse(t))
	u := all.Get("default")
	all.Reports(begin)
	for range 30 {
		u.Admit(false)
	}
	for range 10 {
		u.Admit(true)
	}
	u.RecordOutcomes(begin, 200*time.Millisecond, Answered, 40) // eight in flight, six of them cold
	now := begin.Add(time.Second)
	all.Reports(now)
	for _, flight := range []float64{20, 1} { // 30 cold ones a second need six places, and have them
		all.SetBounds(now, []hottype.UpstreamLimit{{Name: "default", InFlightCap: flight, TargetMeanSeconds: 0.2, Limiters: 1}})
		if got := u.Bound(now).Slots; got != int64(flight) {
			t.Errorf("%d places, want %v", got, flight)
		}
	}
	all.SetBounds(now, []hottype.UpstreamLimit{{Name: "default", InFlightCap: 20, TargetMeanSeconds: 0.1, Limiters: 1}})
	if got := u.Bound(now).Slots; got != 17 {
		t.Errorf("%d places while cold requests take twice as long as they should", got)
	}
	all.SetBounds(now, []hottype.UpstreamLimit{{Name: "default", InFlightCap: 5, TargetMeanSeconds: math.NaN(), Limiters: 1}})
	if got := u.Bound(now).Slots; got == 5 {
		t.Error("a bound that is no number was taken")
	}
}

// Quick denials, and clients that leave soon, make no upstream look fast.
func TestQuickFailuresAreNoLatency(t *testing.T) {
	t.Parallel()
	var r recorder
	r.RecordOutcomes(begin, 100*time.Millisecond, Answered, 1)
	r.takeReport(begin.Add(time.Second))
	r.RecordOutcomes(begin, time.Millisecond, Failed, 100)
	r.RecordOutcomes(begin, time.Millisecond, Canceled, 100)
	r.RecordOutcomes(begin, 2*time.Second, Canceled, 1)
	got := r.takeReport(begin.Add(2 * time.Second))
	if got.LatencySum != 2*time.Second || got.Errors != 100 || got.OK != 0 {
		t.Errorf("%+v", got)
	}
}

// An upstream that fails while no key is hot, such as one that is starting, limits nothing.
func TestTroubleWithoutHotKeysLimitsNothing(t *testing.T) {
	t.Parallel()
	set := parse(t)
	var c Controllers
	for second := range 20 {
		r := makeReport("a", second, 100)
		if u := &r.Upstreams[0]; second > 2 && second < 10 {
			u.OK, u.Errors = 0, u.OK
		}
		got := c.Tick(begin.Add(time.Duration(second)*time.Second), set, nil, []report.Limiter{r})
		if len(got) != 1 || got[0].Saturated || got[0].Rate != 1000 || got[0].InFlightCap < 10 {
			t.Fatalf("second %d: %+v", second, got)
		}
	}
}

// A report that is older than a few seconds does not count.
func TestOldReportsAreNotJudged(t *testing.T) {
	t.Parallel()
	c := New(rules.UpstreamTarget{Latency: 250 * time.Millisecond}, 10, 1000)
	var m Measurement
	m.At, m.OK, m.Cold = begin, 1000, 1000
	m.Latency.addN(time.Second, 1000)
	if b := c.Tick(begin.Add(stale+time.Millisecond), []Measurement{m}); !b.At.IsZero() {
		t.Errorf("after %v: %+v", stale, b)
	}
	if b := c.Tick(begin.Add(stale), []Measurement{m}); b.At.IsZero() {
		t.Errorf("within %v: %+v", stale, b)
	}
}

// An onset at the end of a second makes a first limited second in which little was answered. That is not taken for the
// capacity: while more is asked for and latency is low, the rate is back within ten seconds.
func TestOnsetAtTheEndOfASecond(t *testing.T) {
	t.Parallel()
	const capacity = 250
	c := New(rules.UpstreamTarget{Latency: 117 * time.Millisecond}, 2, 750)
	second := func(i int, answered, denied int64, latency time.Duration) hottype.UpstreamLimit {
		m := Measurement{At: begin.Add(time.Duration(i) * time.Second), OK: answered, Hot: answered, Denied: denied,
			InFlight: float64(answered) * latency.Seconds()}
		m.Latency.addN(latency, answered)
		return c.Tick(m.At, []Measurement{m})
	}
	for i := range 5 {
		second(i, 11, 0, 16*time.Millisecond)
	}
	limit := second(5, 15, 40, 16*time.Millisecond)
	for i := 6; i < 16; i++ {
		limit = second(i, int64(min(limit.Rate, capacity)), 500, 16*time.Millisecond)
	}
	if limit.Rate < 0.8*capacity {
		t.Errorf("%.0f a second ten seconds after the onset, of %d", limit.Rate, capacity)
	}
}

// saturate drives a controller whose upstream answers capacity(second) requests a second in 50 ms, and more slowly
// where more come, but for a share that fails at once. Only hot keys are asked for, by far too much from second 5 on.
func saturate(seconds int, capacity func(second int) float64,
	fails func(second int, hot float64) float64) []hottype.UpstreamLimit {
	c := New(rules.UpstreamTarget{Latency: 250 * time.Millisecond}, 2, 2000)
	limit, list := c.Bound(), make([]hottype.UpstreamLimit, 0, seconds)
	for i := range seconds {
		m := Measurement{At: begin.Add(time.Duration(i) * time.Second), Hot: 20}
		if i > 5 {
			m.Hot, m.Denied = int64(min(1000, limit.Rate)), 1000
		}
		m.Errors = int64(fails(i, float64(m.Hot)) * float64(m.Hot))
		latency := 50 * time.Millisecond
		if m.OK = m.Hot - m.Errors; float64(m.OK) > capacity(i) {
			m.OK, latency = int64(capacity(i)), time.Second
		}
		m.Latency.addN(latency, m.OK)
		m.InFlight = float64(m.OK) * latency.Seconds()
		limit = c.Tick(m.At, []Measurement{m})
		list = append(list, limit)
	}
	return list
}

// Failures that lower rates make no fewer are the upstream's own: they cost a fifth of the limit at most.
func TestOwnFailuresLowerLittle(t *testing.T) {
	t.Parallel()
	list := saturate(120, func(int) float64 { return 1000 }, func(second int, _ float64) float64 {
		if second < 40 {
			return 0
		}
		return 0.03
	})
	for i, limit := range list[40:] {
		if limit.Rate < 800 || math.Abs(limit.Errors-0.03) > 0.002 {
			t.Fatalf("second %d: %.0f of 1,000 (%s, errors %v)", 40+i, limit.Rate, limit.Why, limit.Errors)
		}
	}
}

// Failures that lower rates reduce are failures by overload: the rate falls until there are few.
func TestFailuresByOverloadLowerTheRate(t *testing.T) {
	t.Parallel()
	for _, left := range []float64{950, 900, 870, 850, 800, 500} {
		list := saturate(90, func(int) float64 { return 1000 }, func(second int, hot float64) float64 {
			if second < 40 {
				return 0
			}
			return max(0, 1-left/hot)
		})
		for i := 60; i < len(list); i++ {
			if limit := list[i]; limit.Rate > 1.1*left || limit.Rate < 0.7*left {
				t.Fatalf("second %d: %.0f where %.0f do not fail (%s)", i, limit.Rate, left, limit.Why)
			}
		}
	}
}

// After some seconds, the throughput of a saturated upstream that has become slower is its capacity.
func TestCapacityThatFallsIsSeenSoon(t *testing.T) {
	t.Parallel()
	list := saturate(60, func(second int) float64 {
		if second < 40 {
			return 800
		}
		return 300
	}, func(int, float64) float64 { return 0 })
	if limit := list[43]; limit.Rate > 400 {
		t.Errorf("%.0f a second three seconds after the capacity fell to 300 (%s)", limit.Rate, limit.Why)
	}
}

// The quantile of few requests is less exact, so less is borne: the cap is lower for each request a second.
func TestFewRequestsAreSteeredLower(t *testing.T) {
	t.Parallel()
	places := func(n int64) float64 {
		c := New(rules.UpstreamTarget{Latency: 250 * time.Millisecond}, 2, 2000)
		m := Measurement{At: begin, OK: n, Hot: n}
		m.Latency.addN(100*time.Millisecond, n)
		return c.Tick(begin, []Measurement{m}).InFlightCap / float64(n)
	}
	if few, many := places(100), places(10000); few > 0.9*many {
		t.Errorf("%.3f slots for each of 100 requests a second, %.3f of 10,000", few, many)
	}
}
