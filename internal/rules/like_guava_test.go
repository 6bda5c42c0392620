package rules

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// A rule with bursty allows a call if Guava's tryAcquire(wait) does, after the same wait to the microsecond.
func TestBurstyIsThatOfGuava(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		rate := rapid.SampledFrom([]int64{1, 2, 4, 5, 8, 10, 25, 50, 100}).Draw(rt, "rate") // whole microseconds apart
		apart := time.Second / time.Duration(rate)
		wait := apart * time.Duration(rapid.Int64Range(0, 20).Draw(rt, "places"))
		file := fmt.Sprintf(
			"rules: [{name: topic, params: [id], hot: {rate: 1}, limit: {algorithm: bursty, rate: %d, wait: %v}}]",
			rate, wait)
		set, err := Parse("f.yaml", []byte(file))
		if err != nil {
			rt.Fatal(err)
		}
		guava, err := newBursty(now, float64(rate))
		if err != nil {
			rt.Fatal(err)
		}
		memory := limit.NewMemory(limit.MemoryConfig{})
		charges := []limit.Charge{{Subject: limit.Subject{Name: "a"}, Spec: set.Rules[0].Limit.Spec, Cost: 1}}
		results := make([]limit.Result, 1)
		for i := range 200 { // Guava's clock starts when it is built: with the first call
			ahead := rapid.SampledFrom([]time.Duration{0, time.Microsecond, apart, apart / 3, 3 * apart, time.Second}).
				Draw(rt, "ahead")
			if i > 0 {
				now = now.Add(ahead.Truncate(time.Microsecond))
			}
			waits, want, err := guava.tryAcquire(now, 1, wait)
			if err != nil {
				rt.Fatal(err)
			}
			ok, err := memory.Take(context.Background(), now, charges, results)
			if got := charges[0].Wait(&results[0]); err != nil || ok != want || ok && got != waits {
				rt.Fatalf("%s: at %v: %v after %v, %v; Guava: %v after %v", file, now, ok, got, err, want, waits)
			}
			if !ok && results[0].RetryAfter != waits-wait {
				rt.Fatalf("%s: at %v: retry after %v; Guava waits %v", file, now, results[0].RetryAfter, waits)
			}
		}
	})
}

// A rule with warming_up agrees with Guava too, through changes of the rate. Guava computes with doubles and waits for
// a part of a microsecond; the roundings of a rule add up to at most a microsecond for each pause.
func TestWarmingUpIsThatOfGuava(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		warmUp := time.Duration(rapid.Int64Range(1, 60_000).Draw(rt, "warm-up")) * time.Millisecond
		wait := time.Duration(rapid.Int64Range(0, 10_000).Draw(rt, "wait")) * time.Millisecond
		anyRate := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 5000))
		charge := func(rate int64) limit.Charge {
			set, err := Parse("f.yaml", fmt.Appendf(nil, "rules: [{name: topic, params: [id], hot: {rate: 1}, "+
				"limit: {algorithm: warming_up, rate: %d, warm_up: %v, wait: %v}}]", rate, warmUp, wait))
			if err != nil {
				rt.Fatal(err)
			}
			return limit.Charge{Subject: limit.Subject{Name: "a"}, Spec: set.Rules[0].Limit.Spec}
		}
		rate := anyRate.Draw(rt, "rate")
		guava, err := newWarmingUp(now, float64(rate), warmUp, 3)
		if err != nil {
			rt.Fatal(err)
		}
		memory, results := limit.NewMemory(limit.MemoryConfig{}), make([]limit.Result, 1)
		charges, off := []limit.Charge{charge(rate)}, 2*time.Microsecond
		for range 100 {
			if rapid.IntRange(0, 19).Draw(rt, "change") == 0 {
				rate = anyRate.Draw(rt, "rate")
				charges[0] = charge(rate)
				if err := guava.setRate(now, float64(rate)); err != nil {
					rt.Fatal(err)
				}
				off += 2 * time.Microsecond // the state is rounded to microseconds
			}
			apart := time.Second / time.Duration(rate)
			ahead := rapid.SampledFrom([]time.Duration{0, 0, apart, apart / 3, 2 * apart, wait, warmUp / 7, warmUp}).
				Draw(rt, "ahead")
			now = now.Add(ahead.Truncate(time.Microsecond))
			charges[0].Cost = rapid.Int64Range(1, min(rate, 5)).Draw(rt, "cost")
			waits, want, err := guava.tryAcquire(now, charges[0].Cost, wait)
			if err != nil {
				rt.Fatal(err)
			}
			if waits == 0 {
				off += time.Microsecond // a pause
			}
			ok, err := memory.Take(context.Background(), now, charges, results)
			got := charges[0].Wait(&results[0])
			if !ok {
				got = wait + results[0].RetryAfter
			}
			if err != nil || (got-waits).Abs() > off {
				rt.Fatalf("%d/s, %v, wait %v: at %v: %v after %v, %v; Guava: %v after %v", rate, warmUp, wait, now, ok,
					got, err, want, waits)
			}
			if ok != want {
				return // at the edge; they go different ways from here
			}
		}
	})
}
