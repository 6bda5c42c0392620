package gate_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

const adaptiveRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {adaptive: true, min: 10, max: 1000, rate: 500, burst: 20}}
  - {name: page, match: {path: /page}, params: [id], hot: {rate: 1}}
`

// bound returns the bounds of a controller for the default upstream while topic?id=42 alone is hot.
func bound(rate, inFlight float64) []hottype.UpstreamLimit {
	return []hottype.UpstreamLimit{{
		Name: "default", Rate: rate, InFlightCap: inFlight, Saturated: true, Limiters: 1, MinSum: 10, MaxSum: 1000,
	}}
}

// admitted returns the number of n requests at the present time that are allowed.
func (b *bundle) admitted(n int) (allowed int) {
	for range n {
		if b.get("/topic?id=42", "192.0.2.1").Allowed {
			allowed++
		}
	}
	return allowed
}

// second returns the number of requests that pass in the second after the bucket was emptied, requested a hundred
// times.
func (b *bundle) second() (allowed int) {
	b.admitted(2000)
	for range 100 {
		b.now = b.now.Add(10 * time.Millisecond)
		allowed += b.admitted(20)
	}
	return allowed
}

func TestRateFollowsTheBound(t *testing.T) {
	t.Parallel()
	b := build(t, adaptiveRules, gate.Config{})
	b.hot("topic?id=42")
	for _, step := range []struct {
		bounds []hottype.UpstreamLimit
		after  time.Duration
		want   int
	}{
		{nil, 0, 500},                         // the configured one
		{bound(100, 50), 0, 100},              //
		{bound(0, 50), 0, 10},                 // never below min
		{bound(1e6, 50), 0, 1000},             // nor above max
		{nil, adaptive.LimitTTL / 2, 1000},    // no report: it stays
		{nil, adaptive.LimitTTL, 500},         // and then the configured one does
		{bound(-1, 50), 0, 500},               // a rate that no controller sets
		{bound(200, 50), 0, 200},              //
		{[]hottype.UpstreamLimit{{}}, 0, 200}, // of an upstream that nothing follows
	} {
		b.now = b.now.Add(step.after)
		b.Upstreams().SetBounds(b.now, step.bounds)
		if got := b.second(); got < step.want-1 || got > step.want+1 {
			t.Errorf("%v after %v: %d pass in a second, want %d", step.bounds, step.after, got, step.want)
		}
	}
}

// Keys share a rate by their maxima.
func TestHotKeysShareTheRate(t *testing.T) {
	t.Parallel()
	b := build(t, adaptiveRules, gate.Config{})
	b.hot("topic?id=42", "topic?id=43")
	two := bound(300, 50)
	two[0].MaxSum = 2000
	b.Upstreams().SetBounds(b.now, two)
	if got := b.second(); got != 150 {
		t.Errorf("%d", got)
	}
}

func TestCapOnRequestsInFlight(t *testing.T) {
	t.Parallel()
	b := build(t, adaptiveRules, gate.Config{})
	b.hot("topic?id=42")
	b.Upstreams().SetBounds(b.now, bound(1000, 3))
	var held []verdict.Verdict
	for range 3 {
		v := b.begin("/topic?id=42", "192.0.2.1")
		if !v.Allowed || v.Lease == nil || v.Upstream != "default" {
			t.Fatalf("%+v", v)
		}
		held = append(held, v)
	}
	if v := b.begin("/topic?id=42", "192.0.2.1"); v.Allowed || v.Reason != hottype.ReasonInFlight {
		t.Errorf("a fourth: %+v", v)
	}
	// Cold requests are never denied, and for a caller that does not report when a request ends only
	// the rate is limited.
	if v := b.begin("/page?id=1", "192.0.2.1"); !v.Allowed || v.Lease != nil || v.Upstream != "default" {
		t.Errorf("cold: %+v", v)
	}
	if b.admitted(10) != 10 {
		t.Error("denied by the cap who cannot release")
	}
	// When the answer begins the place is free: how long a client reads is not the upstream's time.
	b.ResponseStarted(b.now, held[0].Lease)
	b.Renew(b.now, held[0].Lease) // takes it not again
	v := b.begin("/topic?id=42", "192.0.2.1")
	if !v.Allowed {
		t.Errorf("after an answer: %+v", v)
	}
	b.Release(b.now, v.Lease)
	if !b.begin("/topic?id=42", "192.0.2.1").Allowed {
		t.Error("after a release")
	}
	// The least rate goes past the cap: else it would not show that it is too low.
	b.begin("/topic?id=42", "192.0.2.1")
	passed := 0
	for range 100 {
		b.now = b.now.Add(10 * time.Millisecond)
		if b.begin("/topic?id=42", "192.0.2.1").Allowed {
			passed++
		}
	}
	if passed < 9 || passed > 11 {
		t.Errorf("%d past the cap in a second, want min, 10", passed)
	}
}

// The cap is divided among limiters by their demand, and evenly while that is not known.
func TestAdaptive_DividesTheCap(t *testing.T) {
	t.Parallel()
	b := build(t, adaptiveRules, gate.Config{})
	b.hot("topic?id=42")
	places := func(asked int, demand float64) int64 {
		b.Upstreams().Reports(b.now)
		for range asked {
			b.get("/topic?id=42", "192.0.2.1")
		}
		b.now = b.now.Add(time.Second)
		b.Upstreams().Reports(b.now)
		two := bound(1000, 40)
		two[0].Limiters, two[0].Demand = 4, demand
		b.Upstreams().SetBounds(b.now, two)
		return b.Upstreams().Get("default").Bound(b.now).Slots
	}
	if got := places(0, 0); got != 10 {
		t.Errorf("%d places before any demand", got)
	}
	if got := places(100, 200); got < 9 || got > 11 {
		t.Errorf("%d places with a quarter of the demand, by the average of two seconds", got)
	}
}

// Cold requests that wait take places from hot ones, as far as they are more than the bound expects.
func TestColdRequestsTakePlaces(t *testing.T) {
	t.Parallel()
	b := build(t, adaptiveRules, gate.Config{})
	b.hot("topic?id=42")
	b.Upstreams().Reports(b.now)
	for range 40 {
		b.get("/page?id=1", "192.0.2.1")
	}
	b.now = b.now.Add(time.Second)
	b.Upstreams().Reports(b.now)
	one := bound(1000, 3)
	one[0].TargetMeanSeconds = 0.05 // two of 40 cold requests a second
	b.Upstreams().SetBounds(b.now, one)
	for range 4 {
		b.UpstreamBegins(b.now, "default")
	}
	if v := b.begin("/topic?id=42", "192.0.2.1"); !v.Allowed {
		t.Errorf("with four in flight, of 3 and 2: %+v", v)
	}
	b.UpstreamBegins(b.now, "default")
	v := b.begin("/topic?id=42", "192.0.2.1")
	if v.Allowed || v.Reason != hottype.ReasonInFlight || v.RetryAfter != time.Second {
		t.Errorf("with five in flight: %+v", v)
	}
	if v := b.begin("/page?id=1", "192.0.2.1"); !v.Allowed {
		t.Errorf("cold: %+v", v)
	}
	// The least rate goes past them.
	b.now = b.now.Add(time.Second)
	if v := b.begin("/topic?id=42", "192.0.2.1"); !v.Allowed || v.Lease != nil {
		t.Errorf("a request of min: %+v", v)
	}
	b.UpstreamEnds(b.now, "default", time.Second, 200)
	if v := b.begin("/topic?id=42", "192.0.2.1"); !v.Allowed || v.Lease == nil {
		t.Errorf("after an answer: %+v", v)
	}
}

func TestUpstreams_ReportRequests(t *testing.T) {
	t.Parallel()
	b := build(t, adaptiveRules, gate.Config{})
	b.hot("topic?id=42")
	b.Upstreams().Reports(b.now)
	b.Upstreams().SetBounds(b.now, bound(1000, 1))
	b.begin("/topic?id=42", "192.0.2.1")
	b.begin("/topic?id=42", "192.0.2.1") // denied by the cap
	b.get("/page?id=1", "192.0.2.1")
	b.UpstreamBegins(b.now, "default")
	b.UpstreamBegins(b.now, "default")
	b.UpstreamBegins(b.now, "nothing follows this")
	b.now = b.now.Add(500 * time.Millisecond)
	b.UpstreamEnds(b.now, "default", 500*time.Millisecond, 200)
	b.UpstreamEnds(b.now, "default", 500*time.Millisecond, 503)
	b.now = b.now.Add(500 * time.Millisecond)
	got := b.Upstreams().Reports(b.now)
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	r := got[0]
	if r.Name != "default" || r.Seconds != 1 || r.OK != 1 || r.Errors != 1 || r.InFlight != 1 || r.Hot != 1 ||
		r.Cold != 1 || r.Denied != 1 {
		t.Errorf("%+v", r)
	}
	if next := b.Upstreams().Reports(b.now.Add(time.Second))[0]; next.OK+next.Errors+next.Hot+next.Cold+
		next.Denied != 0 {
		t.Errorf("the next one has %+v", next)
	}
}

// In shadow mode, and for callers outside, nothing is denied.
func TestAdaptive_DeniesNothingInShadowMode(t *testing.T) {
	t.Parallel()
	b := build(t, `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {adaptive: true, min: 10, max: 1000, mode: shadow}}
`, gate.Config{})
	b.hot("topic?id=42")
	b.Upstreams().SetBounds(b.now, bound(10, 1))
	shadowed := 0
	for range 100 {
		v := b.begin("/topic?id=42", "192.0.2.1")
		if !v.Allowed || v.Lease != nil {
			t.Fatalf("%+v", v)
		}
		if v.WouldDeny {
			shadowed++
		}
	}
	if shadowed < 90 {
		t.Errorf("%d of 100 would have been denied", shadowed)
	}
}

// An override that a person sets precedes an adaptive limit.
func TestOverrideBeatsAdaptive(t *testing.T) {
	t.Parallel()
	b := build(t, adaptiveRules+`
overrides:
  - {key: "topic?id=42", action: limit, rate: 3, burst: 3}
`, gate.Config{})
	b.hot("topic?id=42")
	b.Upstreams().SetBounds(b.now, bound(1000, 50))
	if got := b.admitted(50); got != 3 {
		t.Errorf("%d", got)
	}
}

// Without adaptive limits no request has an upstream.
func TestNoUpstreamWithoutAdaptiveLimits(t *testing.T) {
	t.Parallel()
	b := build(t, inFlightRules, gate.Config{})
	b.hot("topic?id=42")
	if v := b.Begin(context.Background(), b.now, request("/topic?id=42", "192.0.2.1"), false); v.Upstream != "" ||
		b.Upstreams().Reports(b.now) != nil {
		t.Errorf("%+v", v)
	}
}

// Bounds and rules change while requests are decided and end.
func TestBoundsChangeWhileDeciding(t *testing.T) {
	t.Parallel()
	b := build(t, adaptiveRules, gate.Config{})
	b.hot("topic?id=42")
	var deciding sync.WaitGroup
	for range 4 {
		deciding.Go(func() {
			for i := range 500 {
				req := request("/topic?id=42", "192.0.2.1")
				now := b.now.Add(time.Duration(i) * time.Millisecond)
				v := b.Begin(context.Background(), now, req, true)
				b.UpstreamBegins(now, v.Upstream)
				b.UpstreamEnds(now, v.Upstream, time.Millisecond, 200)
				if v.Lease != nil {
					b.ResponseStarted(now, v.Lease)
					b.Release(now, v.Lease)
				}
			}
		})
	}
	for i := range 200 {
		b.Upstreams().SetBounds(b.now, bound(float64(10+i), float64(i)))
		b.Upstreams().Reports(b.now.Add(time.Duration(i) * time.Millisecond))
		if i%50 == 0 {
			b.SetRules(parse(t, adaptiveRules))
		}
	}
	deciding.Wait()
}

// A bucket that starts with few tokens starts with one at least when the limit in force has a smaller burst.
func TestInitialTokensUnderASmallerBurst(t *testing.T) {
	t.Parallel()
	b := build(t, `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {adaptive: true, min: 10, max: 1000, rate: 500, initial_tokens: 1}}
`, gate.Config{})
	b.hot("topic?id=42")
	b.Upstreams().SetBounds(b.now, bound(100, 50))
	if first, second := b.get("/topic?id=42", "192.0.2.1"), b.get("/topic?id=42", "192.0.2.1"); !first.Allowed ||
		second.Allowed || second.Reason != hottype.ReasonHot || b.Stats().LocalErrors != 0 {
		t.Errorf("%+v, %+v; %+v", first, second, b.Stats())
	}
}
