package rules

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// step is one call of a smoother, in seconds. After an acquire the caller waits,
// as in Guava's own tests.
type step struct {
	idle    float64
	setRate float64
	permits int64
	want    float64
}

func get(permits int64, waits ...float64) []step {
	var all []step
	for _, w := range waits {
		all = append(all, step{permits: permits, want: w})
	}
	return all
}

func join(parts ...[]step) []step {
	var all []step
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func idle(seconds float64) []step { return []step{{idle: seconds}} }

func TestSmootherAsPublished(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	bursty := func(rate float64) *smoother { s, _ := newBursty(start, rate); return s }
	warming, _ := newWarmingUp(start, 2, 4*time.Second, 3)
	warm := []float64{0, 1.38, 1.13, .88, .63, .50, .50, .50}
	for name, c := range map[string]struct {
		s     *smoother
		steps []step
	}{
		"simple":  {bursty(5), join(get(1, 0, .2, .2), idle(2), get(1, 0, 0), get(3, 0), get(1, 0, .2))},
		"weights": {bursty(1), join(get(1, 0, 1), get(2, 1), get(4, 2), get(8, 4), get(1, 8))},
		"rate":    {bursty(1), join(get(1, 0, 1), []step{{setRate: 2}}, get(1, 1), get(2, .5), get(4, 1), get(1, 2))},
		"warming": {warming, join(get(1, warm...), idle(.5), idle(4), get(1, warm...), idle(.5), idle(2),
			get(1, 0, .5, .5, .5, .5, .5, .5, .5))},
		"unlimited": {bursty(math.Inf(1)), join(get(math.MaxInt64, 0, 0), []step{{setRate: 2}}, get(1, 0, .5, .5),
			[]step{{setRate: math.Inf(1)}}, get(1, .5, 0))},
	} {
		now := start
		for i, st := range c.steps {
			now = now.Add(time.Duration(st.idle * 1e9))
			if st.setRate > 0 {
				if err := c.s.setRate(now, st.setRate); err != nil {
					t.Fatal(err)
				}
			}
			if st.permits == 0 {
				continue
			}
			wait, err := c.s.acquire(now, st.permits)
			if got := math.Round(wait.Seconds()*100) / 100; err != nil || math.Abs(got-st.want) > 0.006 {
				t.Errorf("%s: step %d: waits %v, want %v; %v", name, i, got, st.want, err)
			}
			now = now.Add(wait)
		}
	}
}

func TestSmootherTryAcquire(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	s, _ := newBursty(now, 5)
	for i, c := range []struct {
		idle, timeout time.Duration
		want          bool
	}{
		{0, 0, true}, {0, 200 * time.Millisecond, true}, {0, 100 * time.Millisecond, false},
		{100 * time.Millisecond, 100 * time.Millisecond, true},
		{0, -time.Hour, false}, {0, math.MaxInt64, true},
	} {
		now = now.Add(c.idle)
		wait, ok, err := s.tryAcquire(now, 1, c.timeout)
		if err != nil || ok != c.want {
			t.Errorf("call %d: %v, want %v; %v", i, ok, c.want, err)
		}
		if ok {
			now = now.Add(wait)
		}
	}
}

// From cold, demand without a pause reaches the threshold after the warm-up, and an empty store after half of it more.
// Permits that are taken in pieces cost as much as permits that are taken at once (H5).
func TestWarmUpTakesItsTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		rate := float64(rapid.IntRange(1, 1000).Draw(rt, "rate"))
		warmUp := time.Duration(rapid.IntRange(100, 60_000).Draw(rt, "ms")) * time.Millisecond
		s, err := newWarmingUp(now, rate, warmUp, 3)
		if err != nil {
			rt.Fatal(err)
		}
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-6*math.Max(1, want) {
				rt.Fatalf("%v/s, %v: %s: %v, want %v", rate, warmUp, what, got, want)
			}
		}
		near("cold to threshold", s.price(s.max-s.threshold), warmUp.Seconds())
		near("cold to nothing", s.price(s.max), 1.5*warmUp.Seconds())
		whole, pieces := *s, *s
		a, b := rapid.Int64Range(1, 2000).Draw(rt, "a"), rapid.Int64Range(1, 2000).Draw(rt, "b")
		whole.acquire(now, a+b)
		pieces.acquire(now, a)
		pieces.acquire(now, b)
		near("in pieces", pieces.next, whole.next)
		near("stored", pieces.stored, whole.stored)
	})
}

// The wait of a call does not depend on its size (H1), a rejected call changes nothing (H2), and any second after a
// burst has at most the rate (H3).
func TestSmootherLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		rate := float64(rapid.IntRange(1, 50).Draw(rt, "rate"))
		s, _ := newBursty(now, rate)
		var granted float64
		start := now
		for range 100 {
			now = now.Add(time.Duration(rapid.Int64Range(0, 5e8).Draw(rt, "ns")))
			small, large, rejected := *s, *s, *s
			a, _ := small.acquire(now, 1)
			b, _ := large.acquire(now, 1000)
			if a != b {
				rt.Fatalf("1 waits %v, 1000 wait %v", a, b)
			}
			if _, ok, _ := rejected.tryAcquire(now, 1, a-1); ok != (a == 0) || !ok && rejected != *s {
				rt.Fatalf("rejected: %+v became %+v", *s, rejected)
			}
			n := rapid.Int64Range(1, 20).Draw(rt, "permits")
			wait, _ := s.acquire(now, n)
			now = now.Add(wait)
			if elapsed := now.Sub(start).Seconds(); granted > rate*(elapsed+1e-6) {
				rt.Fatalf("%v permits were paid for in %v s", granted, elapsed)
			}
			granted += float64(n)
		}
	})
}

func TestSmootherRejectsNonsense(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(-1)} {
		if s, err := newBursty(now, rate); err == nil {
			t.Errorf("rate %v: %+v", rate, s)
		}
	}
	for _, factor := range []float64{0, 0.5, math.NaN(), math.Inf(1)} {
		if s, err := newWarmingUp(now, 1, time.Second, factor); err == nil {
			t.Errorf("factor %v: %+v", factor, s)
		}
	}
	if _, err := newWarmingUp(now, 1, 0, 3); err == nil {
		t.Error("no warm-up")
	}
	s, _ := newBursty(now, 1)
	before := *s
	if _, err := s.acquire(now, 0); err == nil || s.setRate(now, 0) == nil || *s != before {
		t.Errorf("%+v", s)
	}
}
