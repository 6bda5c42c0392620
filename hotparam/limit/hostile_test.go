package limit_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// A clock with an impossible time, before 1970 or beyond the times that are kept exactly, allows the capacity and no
// more; and when it is right again nothing is refilled twice.
func TestMemory_AbsurdClocks(t *testing.T) {
	t.Parallel()
	for _, spec := range []limit.Spec{
		{Algorithm: limit.TokenBucket, Limit: 5, Window: time.Second, Burst: 5},
		{Algorithm: limit.GCRA, Limit: 5, Window: time.Second, Burst: 4},
		{Algorithm: limit.LeakyBucket, Limit: 5, Window: time.Second, Burst: 4},
		{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Second},
		{Algorithm: limit.AnchoredWindow, Limit: 5, Window: time.Second},
		{Algorithm: limit.SlidingWindow, Limit: 5, Window: time.Second},
		{Algorithm: limit.SlidingLog, Limit: 5, Window: time.Second},
		{Algorithm: limit.BucketedWindow, Limit: 5, Window: time.Second, Buckets: 10},
		{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Second, Block: time.Hour, BlockMax: 24 * time.Hour},
	} {
		m := limit.NewMemory(limit.MemoryConfig{})
		take := func(at time.Time) (passed int) {
			for range 8 {
				charges, results := []limit.Charge{{Subject: limit.Subject{Name: "x"}, Spec: spec, Cost: 1}},
					make([]limit.Result, 1)
				ok, err := m.Take(context.Background(), at, charges, results)
				if err != nil || results[0].Remaining < 0 || results[0].Remaining > 5 || results[0].ResetAfter < 0 ||
					!ok && results[0].RetryAfter <= 0 {
					t.Fatalf("%s at %v: %+v, %v", spec.Algorithm, at, results[0], err)
				}
				if ok {
					passed++
				}
			}
			return passed
		}
		for i, step := range []struct {
			at   time.Time
			want int
		}{
			{time.Time{}, 5}, {time.Unix(-1, 0), 0}, {time.Unix(math.MinInt32, 0), 0}, {time.Unix(1_700_000_000, 0), 5},
			// A clock that is set back by more than ten seconds begins again, and by less continues.
			{time.Unix(1_600_000_000, 0), 5}, {time.Unix(1_599_999_999, 0), 0}, {time.Unix(1<<36, 0), 5},
			{time.Unix(1<<37, 0), 0}, {time.Unix(1_700_000_000, 0), 5},
		} {
			if got := take(step.at); got != step.want {
				t.Errorf("%s, step %d, at %v: %d of 8 pass, want %d", spec.Algorithm, i, step.at, got, step.want)
			}
		}
	}
}
