package adaptive

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

func after(d time.Duration) time.Time { return begin.Add(d) }

// Buckets are 1 µs wide up to 32 µs, and a sixteenth of their values above.
func TestHistogram_Buckets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		us     int64
		bucket int
		middle int64
	}{
		{0, 0, 0}, {1, 1, 1}, {15, 15, 15}, {16, 16, 16}, {31, 31, 31}, {32, 32, 33}, {33, 32, 33}, {34, 33, 35},
		{63, 47, 63}, {64, 48, 66}, {67, 48, 66}, {68, 49, 70}, {1000, 111, 1008}, {1 << 20, 272, 1<<20 + 1<<15},
		{1<<27 - 1, buckets - 1, 1<<27 - 1<<21}, {1 << 27, buckets - 1, 1<<27 - 1<<21}, {1 << 40, buckets - 1,
			1<<27 - 1<<21},
	} {
		d := time.Duration(c.us) * time.Microsecond
		if got := bucketOf(d); got != c.bucket || bucketMiddle(got) != time.Duration(c.middle)*time.Microsecond {
			t.Errorf("%v: bucket %d with middle %v, want %d with %d us", d, got, bucketMiddle(got), c.bucket, c.middle)
		}
	}
	if buckets != 24*16 {
		t.Errorf("%d buckets", buckets)
	}
}

func TestHistogramAddsUp(t *testing.T) {
	t.Parallel()
	var a, b Histogram
	a.addN(10*time.Microsecond, 3)
	a.Add(-time.Second) // as 0
	b.addN(10*time.Microsecond, 2)
	b.addN(20*time.Microsecond, 4)
	b.Merge(&a)
	if b.Count() != 10 || b.Mean() != 13*time.Microsecond || b.counts[10] != 5 || b.counts[0] != 1 ||
		b.counts[20] != 4 {
		t.Errorf("%d, mean %v, %v", b.Count(), b.Mean(), b.Pairs())
	}
	for q, want := range map[float64]time.Duration{0.05: 0, 0.1: 0, 0.11: 10, 0.6: 10, 0.61: 20, 1: 20} {
		if got := b.Quantile(q); got != want*time.Microsecond {
			t.Errorf("quantile %v: %v, want %d us", q, got, want)
		}
	}
	b.MergePairs([]int64{0, 1, 20, 1<<31 - 1, buckets - 1, 1, 5}, time.Microsecond)
	if b.Count() != 10+1+1+1<<31-1 || b.sum != 131*time.Microsecond || b.counts[buckets-1] != 1 {
		t.Errorf("%d, sum %v, %v", b.Count(), b.sum, b.Pairs())
	}
}

// A recorder reports counts, the mean number of requests in flight since the last report, and latency.
func TestReportOfARecorder(t *testing.T) {
	t.Parallel()
	var r recorder
	r.takeReport(begin)
	r.Begin(begin)
	r.Begin(after(time.Second))
	if r.Waiting() != 2 {
		t.Errorf("%d wait, want 2", r.Waiting())
	}
	r.End(after(2*time.Second), 2*time.Second, Answered)
	r.Begin(after(time.Second)) // its clock is behind
	r.Admit(true)
	r.Admit(true)
	r.Admit(false)
	r.Deny()
	r.End(after(3*time.Second), time.Second, Canceled)
	r.End(after(3*time.Second), 3*time.Second, Failed)
	r.End(after(3*time.Second), time.Second, Answered) // of before a change of the rules
	got := r.takeReport(after(4 * time.Second))
	// one request of two seconds, two of one second, and no request: 1 + 2 + 2 of 4 seconds
	if got.InFlight != 5./4 || got.Seconds != 4 || got.OK != 2 || got.Errors != 1 || got.Hot != 2 || got.Cold != 1 ||
		got.Denied != 1 || got.LatencySum != 7*time.Second {
		t.Errorf("%+v", got)
	}
	if r.Waiting() != 0 || r.mean != 7*time.Second/4 {
		t.Errorf("%d wait, mean %v", r.Waiting(), r.mean)
	}
	r.RecordOutcomes(after(4*time.Second), time.Second, Canceled, 3) // sooner than the mean: no latency
	r.RecordOutcomes(after(4*time.Second), 2*time.Second, Answered, 2)
	r.Admit(false)
	r.Admit(false)
	r.Admit(true)
	got = r.takeReport(after(6 * time.Second))
	if got.InFlight != 3.5 || got.Seconds != 2 || got.OK != 2 || got.Errors != 0 || got.LatencySum != 4*time.Second ||
		got.Hot != 1 || got.Cold != 2 || got.Denied != 0 {
		t.Errorf("%+v", got)
	}
	if cold := r.reportedColdInFlight(); cold < 1.1666 || cold > 1.1667 { // half of 0 and of 3.5 * 2/3
		t.Errorf("%v cold requests in flight", cold)
	}
	if got = r.takeReport(after(6 * time.Second)); got.Seconds != 0 || got.InFlight != 0 {
		t.Errorf("without time: %+v", got)
	}
}

// Reports beyond the bounds are rejected, and rates are rounded to whole requests a second.
func TestBoundsOfAReport(t *testing.T) {
	t.Parallel()
	good := report.Upstream{Seconds: 2, OK: 7, Errors: 2, Hot: 5, Cold: 3, Denied: 1, InFlight: 4,
		Latency:    []int64{20, 9},
		LatencySum: time.Second}
	var m Measurement
	for range 2 {
		if !m.add(&good) {
			t.Fatal("refused")
		}
	}
	if m.OK != 8 || m.Errors != 2 || m.Hot != 6 || m.Cold != 4 || m.Denied != 2 || m.InFlight != 8 ||
		m.Latency.Count() != 18 ||
		m.Latency.sum != 2*time.Second {
		t.Errorf("%+v", m)
	}
	for name, c := range map[string]struct {
		change func(u *report.Upstream)
		valid  bool
	}{
		"shortest":       {func(u *report.Upstream) { u.Seconds = 0.1 }, true},
		"shorter":        {func(u *report.Upstream) { u.Seconds = 0.099 }, false},
		"longest":        {func(u *report.Upstream) { u.Seconds = 60 }, true},
		"longer":         {func(u *report.Upstream) { u.Seconds = 60.1 }, false},
		"none in flight": {func(u *report.Upstream) { u.InFlight = 0 }, true},
		"less":           {func(u *report.Upstream) { u.InFlight = -0.1 }, false},
		"most in flight": {func(u *report.Upstream) { u.InFlight = 1e8 }, true},
		"more":           {func(u *report.Upstream) { u.InFlight = 1.1e8 }, false},
		"none":           {func(u *report.Upstream) { u.OK = 0 }, true},
		"most":           {func(u *report.Upstream) { u.Denied = 1e8 }, true},
		"above":          {func(u *report.Upstream) { u.Denied = 1e8 + 1 }, false},
	} {
		u := good
		c.change(&u)
		if got := new(Measurement).add(&u); got != c.valid {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A bound is made of the reports of the last four seconds, and its time reflects their age.
func TestBoundOfSeveralReports(t *testing.T) {
	t.Parallel()
	set := parse(t)
	var c Controllers
	a, b := makeReport("a", 0, 100), makeReport("b", 0, 300)
	a.Upstreams = append([]report.Upstream{{Name: "other", Seconds: 1, OK: 5}}, a.Upstreams...)
	a.Upstreams[1].Hot, b.Upstreams[0].Denied = 7, 11
	c.Tick(begin, set, nil, []report.Limiter{a, b})
	again := makeReport("b", 3, 300)
	got := c.Tick(after(3*time.Second), set, nil, []report.Limiter{a, again})
	if len(got) != 1 || got[0].Limiters != 2 || got[0].Demand != 7 || !got[0].At.Equal(after(3*time.Second)) ||
		got[0].MinSum != 10 || got[0].MaxSum != 1000 || got[0].Quantile != 0.9 {
		t.Errorf("%+v", got)
	}
	one := c.of["default"]
	if one.until != after(3*time.Second+LimitTTL) || one.idle != 0 {
		t.Errorf("until %v, idle %d", one.until, one.idle)
	}
	// After more than four seconds a limiter has left.
	for second, want := range map[int]int{4: 2, 5: 1} {
		again := makeReport("b", second, 300)
		got := c.Tick(after(time.Duration(second)*time.Second+time.Duration(second-4)), set, nil,
			[]report.Limiter{a, again})
		if len(got) != 1 || second == 5 && got[0].Limiters != want {
			t.Errorf("second %d: %+v", second, got)
		}
	}
	if got := c.Tick(after(time.Minute), set, nil, nil); len(got) != 1 ||
		got[0].Why != "no reports: the last bound holds" {
		t.Errorf("%+v", got)
	}
}

// A report that is two seconds old on average has its effect later: it is in the sample's lag.
func TestControllers_MeasureTheAgeOfReports(t *testing.T) {
	t.Parallel()
	set := parse(t)
	var c Controllers
	set0 := []report.Limiter{makeReport("a", 0, 10)} // too few to be judged: they stay in the pool
	c.Tick(begin, set, nil, set0)
	c.Tick(after(3*time.Second), set, nil, []report.Limiter{set0[0], makeReport("b", 3, 5)})
	if got := c.of["default"].pool.At; !got.Equal(after(time.Second)) { // ages 3 s and 0 s, and half a second
		t.Errorf("measured at %v after the beginning, want 1 s", got.Sub(begin))
	}
}

// A controller begins again after a minute without requests for hot keys, and when its target changes.
func TestControllersBeginAnew(t *testing.T) {
	t.Parallel()
	set := parse(t)
	var c Controllers
	tick := func(i, hot int) *upstreamState {
		r := makeReport("a", i, 100)
		r.Upstreams[0].Hot = int64(hot)
		c.Tick(after(time.Duration(i)*time.Second), set, nil, []report.Limiter{r})
		return c.of["default"]
	}
	first := tick(0, 1)
	for i := 1; i <= idle+1; i++ {
		if tick(i, 0) != first {
			t.Fatalf("another one after %d idle seconds", i)
		}
	}
	second := tick(idle+2, 1)
	if second == first {
		t.Error("the same one after more than a minute")
	}
	if second.target.Latency++; tick(idle+3, 1) == second {
		t.Error("the same one for another target")
	}
}

// Without hot keys, the range is the range of the rule with the greatest maximum; with hot keys, the sum of theirs. The
// window is the longest of the rules, with hot keys and without.
func TestFollowersOf_HasRangeAndWindow(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("f.yaml", []byte(`
upstreams: [{name: default, target: {latency: 250ms}}]
rules:
  - {name: a, match: {path: /a}, params: [id], hot: {rate: 1}, limit: {adaptive: true, min: 10, max: 1000}}
  - {name: b, match: {path: /b}, params: [id], hot: {rate: 1}, limit: {adaptive: true, min: 20, max: 3000}}
  - {name: c, match: {path: /c}, params: [id], hot: {rate: 1, window: 20s}, limit: {adaptive: true, min: 30, max: 2000}}
  - {name: d, match: {path: /d}, params: [id], hot: {rate: 1}, limit: {adaptive: true, min: 40, max: 3000}}
`))
	if err != nil {
		t.Fatal(err)
	}
	const window = 20 * time.Second
	hot := []hottype.HotKey{{Key: "gone?id=1"}, {Key: "a?id=1"}, {Key: "c?id=1"}}
	for _, one := range []struct {
		hot      []hottype.HotKey
		upstream string
		want     followers
	}{
		{nil, "default", followers{20, 3000, window}}, {hot, "default", followers{40, 3000, window}},
		{hot, "other", followers{}},
	} {
		if got := followersOf(set, one.hot, one.upstream); got != one.want {
			t.Errorf("%d hot keys of upstream %s: %+v, want %+v", len(one.hot), one.upstream, got, one.want)
		}
	}
}

// A limiter's part of a bound: by its demand, or by how many limiters there are.
func TestPartOfABound(t *testing.T) {
	t.Parallel()
	now := after(time.Second)
	for name, c := range map[string]struct {
		bound hottype.UpstreamLimit
		want  int64
	}{
		"by demand":        {hottype.UpstreamLimit{InFlightCap: 20, Demand: 40, Limiters: 10}, 5},
		"all":              {hottype.UpstreamLimit{InFlightCap: 20, Demand: 5, Limiters: 2}, 20},
		"by limiters":      {hottype.UpstreamLimit{InFlightCap: 20, Limiters: 4}, 5},
		"alone":            {hottype.UpstreamLimit{InFlightCap: 20}, 20},
		"rounded up":       {hottype.UpstreamLimit{InFlightCap: 20.2, Limiters: 4}, 6},
		"with cold ones":   {hottype.UpstreamLimit{InFlightCap: 20, Limiters: 4, TargetMeanSeconds: 0.5}, 8},
		"one at least":     {hottype.UpstreamLimit{Limiters: 4}, 1},
		"100000 at most":   {hottype.UpstreamLimit{InFlightCap: 1e6, Limiters: 4}, 100_000},
		"as many as there": {hottype.UpstreamLimit{InFlightCap: 2147483647, Limiters: 1 << 30}, 2},
	} {
		var all Upstreams
		all.Configure(parse(t))
		u := all.Get("default")
		all.Reports(begin)
		for range 5 {
			u.Admit(true)
			u.Deny()
			u.Admit(false)
		}
		u.Admit(false)
		all.Reports(now)
		c.bound.Name = "default"
		all.SetBounds(now, []hottype.UpstreamLimit{{Name: "gone"}, c.bound})
		b := u.Bound(now.Add(LimitTTL - 1))
		if b == nil || b.Slots != c.want {
			t.Errorf("%s: %+v, want %d slots", name, b, c.want)
		}
		if u.Bound(now.Add(LimitTTL)) != nil || len(all.Bounds(now.Add(LimitTTL))) != 0 || len(all.Bounds(now)) != 1 {
			t.Errorf("%s: it holds for other than a minute", name)
		}
	}
}

func TestIsValid_RejectsInvalidBounds(t *testing.T) {
	t.Parallel()
	for i, change := range []func(b *hottype.UpstreamLimit, v float64){
		func(b *hottype.UpstreamLimit, v float64) { b.Rate = v },
		func(b *hottype.UpstreamLimit, v float64) { b.InFlightCap = v },
		func(b *hottype.UpstreamLimit, v float64) { b.TargetMeanSeconds = v },
		func(b *hottype.UpstreamLimit, v float64) { b.Demand = v },
		func(b *hottype.UpstreamLimit, v float64) { b.MinSum = v },
		func(b *hottype.UpstreamLimit, v float64) { b.MaxSum = v },
	} {
		for v, want := range map[float64]bool{-0.1: false, 0: true, 1<<31 - 1: true, 1 << 31: false} {
			var b hottype.UpstreamLimit
			if change(&b, v); isValid(&b) != want {
				t.Errorf("field %d = %v: valid is %v", i, v, !want)
			}
		}
	}
}

// A key's part of the rate is by its maximum, within its own bounds.
func TestRateOfAKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rate, sum, least, most, want float64 }{
		{300, 3000, 10, 1000, 100}, {3, 3000, 10, 1000, 10}, {9000, 3000, 10, 1000, 1000}, {300, 0, 10, 1000, 1000},
	} {
		b := LocalLimit{UpstreamLimit: hottype.UpstreamLimit{Rate: c.rate, MaxSum: c.sum}}
		if got := b.Rate(&rules.Adaptive{Min: c.least, Max: c.most}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Probes pass at the least rate of this limiter's part, at most one at once.
func TestAllowProbe_AtTheLeastRate(t *testing.T) {
	t.Parallel()
	var all Upstreams
	all.Configure(parse(t))
	u := all.Get("default")
	if !u.AllowProbe(begin) {
		t.Error("denied without a bound")
	}
	all.SetBounds(begin, []hottype.UpstreamLimit{{Name: "default", MinSum: 10, MaxSum: 20,
		Limiters: 5}}) // two a second
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{
		{0, false}, {499 * time.Millisecond, false}, {500 * time.Millisecond, true}, {500 * time.Millisecond, false},
		{400 * time.Millisecond, false}, {999 * time.Millisecond, false}, {time.Second, true}, {10 * time.Second, true},
		{10 * time.Second, false}, {10400 * time.Millisecond, false}, {10500 * time.Millisecond, true},
	} {
		if got := u.AllowProbe(after(c.after)); got != c.want {
			t.Errorf("after %v: %v", c.after, got)
		}
	}
}

// A limiter reports every upstream, by name.
func TestReportsOfAllUpstreams(t *testing.T) {
	t.Parallel()
	var all Upstreams
	if got := all.Reports(begin); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	all.Configure(parse(t))
	all.Reports(begin)
	all.Get("search").Admit(true)
	all.Get("default").Deny()
	got := all.Reports(after(time.Second))
	if len(got) != 2 || got[0].Name != "default" || got[0].Denied != 1 || got[1].Name != "search" || got[1].Hot != 1 ||
		got[0].Seconds != 1 || got[1].Seconds != 1 {
		t.Errorf("%+v", got)
	}
	if all.Get("gone") != nil {
		t.Error("an upstream that no limit follows")
	}
	// Probes of a lone limiter, and of a limiter that does not know their number.
	for _, limiters := range []int{0, 1} {
		var all Upstreams
		all.Configure(parse(t))
		u := all.Get("default")
		all.SetBounds(begin, []hottype.UpstreamLimit{{Name: "default", MinSum: 2, MaxSum: 20, Limiters: limiters}})
		if u.AllowProbe(begin) || u.AllowProbe(after(499*time.Millisecond)) ||
			!u.AllowProbe(after(500*time.Millisecond)) {
			t.Errorf("%d limiters: other than two probes a second", limiters)
		}
	}
}
