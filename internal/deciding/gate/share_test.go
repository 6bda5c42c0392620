package gate

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// The shares that n processes enforce by themselves add up to no more than the limit, for every algorithm, as long as
// each share allows at least one.
func TestShareOfEveryAlgorithm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ whole, want limit.Spec }{
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 100, Window: time.Second, Burst: 200},
			limit.Spec{Algorithm: limit.TokenBucket, Limit: 100, Window: 4 * time.Second, Burst: 50}},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 1},
			limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: 4 * time.Second, Burst: 1}},
		{limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 20, InitialDeficit: 12,
			Wait: time.Second}, limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: 4 * time.Second, Burst: 5,
			InitialDeficit: 3, Wait: time.Second}},
		{limit.Spec{Algorithm: limit.FixedWindow, Limit: 8, Window: time.Second, Block: time.Minute},
			limit.Spec{Algorithm: limit.FixedWindow, Limit: 2, Window: time.Second, Block: time.Minute}},
		{limit.Spec{Algorithm: limit.GCRA, Limit: 1, Window: time.Second},
			limit.Spec{Algorithm: limit.GCRA, Limit: 1, Window: 4 * time.Second}},
		{limit.Spec{Algorithm: limit.GCRA, Limit: 10, Window: time.Second, Burst: 7},
			limit.Spec{Algorithm: limit.GCRA, Limit: 10, Window: 4 * time.Second, Burst: 1}},
		{limit.Spec{Algorithm: limit.LeakyBucket, Limit: 10, Window: time.Second, Burst: 3},
			limit.Spec{Algorithm: limit.LeakyBucket, Limit: 10, Window: 4 * time.Second}},
		{limit.Spec{Algorithm: limit.FixedWindow, Limit: 50, Window: time.Second},
			limit.Spec{Algorithm: limit.FixedWindow, Limit: 12, Window: time.Second}},
		{limit.Spec{Algorithm: limit.SlidingLog, Limit: 2, Window: time.Second},
			limit.Spec{Algorithm: limit.SlidingLog, Limit: 1, Window: time.Second}},
		{limit.Spec{Algorithm: limit.WarmingUp, Limit: 1, Window: time.Second, WarmUp: time.Minute, Wait: time.Second},
			limit.Spec{Algorithm: limit.WarmingUp, Limit: 1, Window: 4 * time.Second, WarmUp: time.Minute,
				Wait: time.Second}},
		{limit.Spec{Algorithm: limit.TokenBucket, Window: time.Second, Burst: 9},
			limit.Spec{Algorithm: limit.TokenBucket, Window: time.Second, Burst: 9}},
	} {
		if got := fallbackSpec(tt.whole, 4); got != tt.want {
			t.Errorf("share of %+v is %+v, want %+v", tt.whole, got, tt.want)
		}
	}
}

// The options besides the amounts are shared out too: a wait stays as long, so that a part of the calls may wait; a
// block stays as long; and the tokens with which a bucket starts are never more than in the whole bucket.
func TestFallbackSpecKeepsWaitAndBlock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := limit.Spec{
			Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.TokenBucket, limit.GCRA, limit.LeakyBucket,
				limit.FixedWindow, limit.SlidingWindow}).Draw(rt, "algorithm"),
			Limit:  rapid.Int64Range(1, 10_000).Draw(rt, "limit"),
			Window: time.Duration(rapid.Int64Range(1, 100_000).Draw(rt, "ms")) * time.Millisecond,
			Block:  time.Duration(rapid.Int64Range(0, 10).Draw(rt, "block")) * time.Second,
		}
		if s.Block > 0 {
			s.BlockMax = s.Block * time.Duration(rapid.Int64Range(1, 9).Draw(rt, "longest"))
		}
		if limitcore.Spec(s).Refills() {
			s.Burst = rapid.Int64Range(1, 10_000).Draw(rt, "burst")
			s.Wait = time.Duration(rapid.Int64Range(0, 60_000).Draw(rt, "wait")) * time.Millisecond
		}
		if s.Algorithm == limit.TokenBucket {
			s.InitialDeficit = rapid.Int64Range(0, s.Burst).Draw(rt, "lack")
		}
		if s.Validate() != nil {
			rt.Skip("cannot be kept")
		}
		n := rapid.Int64Range(1, 300).Draw(rt, "processes")
		part := fallbackSpec(s, n)
		if err := part.Validate(); err != nil {
			rt.Fatalf("1/%d of %+v is %+v: %v", n, s, part, err)
		}
		if atOnce(part) > 1 && atOnce(part)*n > atOnce(s) || atOnce(part) < 1 {
			rt.Errorf("1/%d of %+v admits %d at once", n, s, atOnce(part))
		}
		if waits, all := part.Capacity()-atOnce(part), s.Capacity()-atOnce(s); waits*n > all || part.Wait != s.Wait {
			rt.Errorf("of 1/%d of %+v %d wait for up to %v, of all %d", n, s, waits, part.Wait, all)
		}
		if part.Block != s.Block || part.BlockMax != s.BlockMax {
			rt.Errorf("1/%d of %+v blocks otherwise: %+v", n, s, part)
		}
		if initial, all := part.Burst-part.InitialDeficit,
			s.Burst-s.InitialDeficit; s.Algorithm == limit.TokenBucket &&
			(initial < 0 || initial > 1 && initial*n > all || initial > all) {
			rt.Errorf("1/%d of %+v starts with %d, all with %d", n, s, initial, all)
		}
	})
}

func atOnce(s limit.Spec) int64 { return limitcore.Spec(s).BurstCapacity() }
