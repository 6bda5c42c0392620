package limitlaws

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// leaky returns the spec of nginx's limit_req with a rate per second.
func leaky(burst, perSecond int64) limit.Spec {
	return limit.Spec{Algorithm: limit.LeakyBucket, Limit: perSecond, Window: time.Second, Burst: burst}
}

// testNginx replays the behaviour of nginx with 10 requests a second: the delays in ms, or -1 if nginx rejects a
// request.
func testNginx(t *testing.T, f Fixture) {
	for _, c := range []struct {
		burst int64
		calls [][2]int64 // at ms, delay
	}{
		{0, [][2]int64{{0, 0}, {50, -1}, {100, 0}, {199, -1}, {200, 0}}},
		{5, [][2]int64{{0, 0}, {0, 100}, {0, 200}, {0, 300}, {0, 400}, {0, 500}, {0, -1}, {0, -1}, {100, 500},
			{100, -1}, {350, 350}}},
	} {
		f.Reset()
		s, spec := store{f, t}, leaky(c.burst, 10)
		for i, call := range c.calls {
			if got := s.delay(call[0]*1000, spec, 1); got != call[1]*1000 && (got >= 0 || call[1] >= 0) {
				t.Errorf("burst %d: call %d at %d ms: delayed by %d us, want %d ms", c.burst, i, call[0], got, call[1])
			}
		}
	}
}

// delay requests a cost and returns the wait in microseconds, or -1 if the cost is denied.
func (s store) delay(now int64, spec limit.Spec, cost int64) int64 {
	s.t.Helper()
	c := charge("a", spec, cost)
	_, results := s.take(now, c)
	if !results[0].Allowed {
		return -1
	}
	return micros(c.Wait(&results[0]))
}

// testQueue checks that calls leave first in, first out, as soon as they may, 1/rate apart for every cost, and no
// earlier (Q1, Q2). A call is allowed if and only if the costs in front of it and its own cost fit (Q3), and a denied
// call moves nothing.
func testQueue(t *testing.T, f Fixture) {
	check(t, 1, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now, free := store{f, rt}, newClock(rt).now, int64(0)
		apart := rapid.Int64Range(1, 200_000).Draw(rt, "us apart")
		n := rapid.SampledFrom([]int64{1, 1, 7, 100}).Draw(rt, "limit")
		burst := rapid.Int64Range(0, 20).Draw(rt, "burst")
		spec := limit.Spec{Algorithm: limit.LeakyBucket, Limit: n, Window: time.Duration(apart*n) * time.Microsecond,
			Burst: burst}
		for range steps {
			now += rapid.Int64Range(0, 2*apart).Draw(rt, "ahead")
			cost := rapid.SampledFrom([]int64{1, 1, 1, 2, burst + 1}).Draw(rt, "cost")
			leaves, got := max(now, free), s.delay(now, spec, cost)
			switch fits := leaves-now+cost*apart <= (burst+1)*apart; {
			case fits != (got >= 0):
				rt.Fatalf("Q3: %+v: cost %d at %d, queue free at %d: delay %d", spec, cost, now, free, got)
			case fits && got != leaves-now:
				rt.Fatalf("Q2: %+v: cost %d at %d leaves after %d, want %d", spec, cost, now, got, leaves-now)
			case fits:
				free = leaves + cost*apart
			}
		}
	})
}

// testSchedule checks that a client that always takes all remaining tokens gets all tokens of the rate, less one at
// most, for all times of its calls (T3, U17).
func testSchedule(t *testing.T, f Fixture) {
	check(t, 2, func(rt *rapid.T, steps int) {
		f.Reset()
		s := store{f, rt}
		spec := limit.Spec{
			Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.TokenBucket, limit.GCRA}).Draw(rt, "algorithm"),
			Limit:     rapid.Int64Range(1, 5000).Draw(rt, "limit"),
			Burst:     rapid.Int64Range(2, 500).Draw(rt, "burst"),
			Window:    time.Duration(rapid.Int64Range(1, 10_000_000).Draw(rt, "us")) * time.Microsecond,
		}
		window := micros(spec.Window)
		gap := (spec.Capacity() - 1) * window / spec.Limit // longer gaps overflow the bucket
		start := newClock(rt).now
		now, got := start, s.atMost(start, spec, spec.Capacity())
		for range steps {
			now += rapid.Int64Range(0, gap).Draw(rt, "gap")
			got += s.atMost(now, spec, spec.Capacity())
		}
		due := product(spec.Capacity(), window).plus(product(spec.Limit, now-start))
		if due.less(product(got, window)) || product(got+1, window).less(due) {
			rt.Fatalf("%+v: %d granted in %d us", spec, got, now-start)
		}
	})
}
