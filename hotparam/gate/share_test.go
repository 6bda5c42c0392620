package gate

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// What n processes enforce by themselves adds up to no more than the limit,
// whatever its algorithm, as long as each admits at least one.
func TestShareOfEveryAlgorithm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ whole, want limit.Spec }{
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 100, Window: time.Second, Burst: 200}, limit.Spec{Algorithm: limit.TokenBucket, Limit: 100, Window: 4 * time.Second, Burst: 50}},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 1}, limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: 4 * time.Second, Burst: 1}},
		{limit.Spec{Algorithm: limit.GCRA, Limit: 1, Window: time.Second}, limit.Spec{Algorithm: limit.GCRA, Limit: 1, Window: 4 * time.Second}},
		{limit.Spec{Algorithm: limit.GCRA, Limit: 10, Window: time.Second, Burst: 7}, limit.Spec{Algorithm: limit.GCRA, Limit: 10, Window: 4 * time.Second, Burst: 1}},
		{limit.Spec{Algorithm: limit.LeakyBucket, Limit: 10, Window: time.Second, Burst: 3}, limit.Spec{Algorithm: limit.LeakyBucket, Limit: 10, Window: 4 * time.Second}},
		{limit.Spec{Algorithm: limit.FixedWindow, Limit: 50, Window: time.Second}, limit.Spec{Algorithm: limit.FixedWindow, Limit: 12, Window: time.Second}},
		{limit.Spec{Algorithm: limit.SlidingLog, Limit: 2, Window: time.Second}, limit.Spec{Algorithm: limit.SlidingLog, Limit: 1, Window: time.Second}},
		{limit.Spec{Algorithm: limit.TokenBucket, Window: time.Second, Burst: 9}, limit.Spec{Algorithm: limit.TokenBucket, Window: time.Second, Burst: 9}},
	} {
		if got := share(tt.whole, 4); got != tt.want {
			t.Errorf("share of %+v is %+v, want %+v", tt.whole, got, tt.want)
		}
	}
}
