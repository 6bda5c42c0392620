package rules

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// A rule with bursty admits what Guava's tryAcquire(wait) does, after the same wait to
// the microsecond.
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
		guava, err := limit.NewBursty(now, float64(rate))
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
			waits, want, err := guava.TryAcquire(now, 1, wait)
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
