package limittest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// promised checks what the algorithm promises of any stretch of time, judged
// from the outside: T2, F3 (at most 2 x Limit in a Window) and S3.
func (o *oracle) promised(t tester) {
	t.Helper()
	for i := range o.log {
		sum := int64(0)
		for _, e := range o.log[i:] {
			sum += e.cost
			if d := e.at - o.log[i].at; !within(o.spec, d, sum) {
				t.Fatalf("%+v: %d admitted within %d us\nlog %v", o.spec, sum, d, o.log)
			}
		}
	}
}

// within is the promise about any stretch of d microseconds, ends included.
func within(spec limit.Spec, d, sum int64) bool {
	window := micros(spec.Window)
	switch {
	case spec.Algorithm == limit.TokenBucket, spec.Algorithm == limit.GCRA, spec.Algorithm == limit.LeakyBucket:
		return !product(spec.Capacity(), window).plus(product(spec.Limit, d)).less(product(sum, window))
	case spec.Algorithm == limit.WarmingUp: // the last one may be of any cost
		return !product(spec.Limit, d+micros(spec.Wait)+window).less(product(sum, window))
	case d >= window:
		return true
	case spec.Algorithm == limit.FixedWindow, spec.Algorithm == limit.AnchoredWindow:
		return sum <= 2*spec.Limit
	case spec.Algorithm == limit.SlidingLog, spec.Algorithm == limit.BucketedWindow:
		return sum <= spec.Limit
	}
	return !product(spec.Limit, window).plus(product(spec.Limit, d)).less(product(sum, window))
}

// testSchedule: a client that always takes all there is gets all that the rate
// gives, less one token at most, whenever it asks (T3, U17).
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
		gap := (spec.Capacity() - 1) * window / spec.Limit // longer ones overflow the bucket
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
