package limitcore

import (
	"math"
	"testing"
	"time"
)

const us = time.Microsecond

// Every bound of the domain: the last spec that is valid, and the first that is not.
func TestEdgesOfTheDomain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ last, first Spec }{
		"window": {Spec{Algorithm: FixedWindow, Window: 1 << 45 * us}, Spec{Algorithm: FixedWindow,
			Window: (1<<45 + 1) * us}},
		"shortest window": {Spec{Algorithm: FixedWindow, Window: us}, Spec{Algorithm: FixedWindow}},
		"limit": {Spec{Algorithm: FixedWindow, Limit: 1<<53 - 1, Window: us}, Spec{Algorithm: FixedWindow,
			Limit: 1 << 53, Window: us}},
		"no limit": {Spec{Algorithm: FixedWindow, Window: us}, Spec{Algorithm: FixedWindow, Limit: -1,
			Window: us}},
		"wait": {Spec{Algorithm: GCRA, Window: us, Wait: 1 << 45 * us}, Spec{Algorithm: GCRA, Window: us,
			Wait: (1<<45 + 1) * us}},
		"block": {Spec{Algorithm: FixedWindow, Window: us, Block: 1 << 45 * us},
			Spec{Algorithm: FixedWindow, Window: us, Block: (1<<45 + 1) * us}},
		"longest block": {Spec{Algorithm: FixedWindow, Window: us, Block: 2 * us, BlockMax: 2 * us},
			Spec{Algorithm: FixedWindow, Window: us, Block: 2 * us, BlockMax: us}},
		"deficit": {Spec{Algorithm: TokenBucket, Limit: 1, Window: us, Burst: 3, InitialDeficit: 3},
			Spec{Algorithm: TokenBucket, Limit: 1, Window: us, Burst: 3, InitialDeficit: 4}},
		"reserve": {Spec{Algorithm: TokenBucket, Limit: 1, Window: us, Burst: 3, Reserve: 2},
			Spec{Algorithm: TokenBucket, Limit: 1, Window: us, Burst: 3, Reserve: 3}},
		"no reserve": {Spec{Algorithm: GCRA, Limit: 1, Window: us, Burst: 3},
			Spec{Algorithm: GCRA, Limit: 1, Window: us, Burst: 3, Reserve: -1}},
		"sliding products": {Spec{Algorithm: SlidingWindow, Limit: 1<<33 - 1, Window: 1 << 20 * us},
			Spec{Algorithm: SlidingWindow, Limit: 1 << 33, Window: 1 << 20 * us}},
		"log": {Spec{Algorithm: SlidingLog, Limit: 10_000, Window: us}, Spec{Algorithm: SlidingLog, Limit: 10_001,
			Window: us}},
		"most buckets": {Spec{Algorithm: BucketedWindow, Window: 1001000 * us, Buckets: 1000},
			Spec{Algorithm: BucketedWindow, Window: 1001000 * us, Buckets: 1001}},
		"fewest buckets": {Spec{Algorithm: BucketedWindow, Window: us, Buckets: 1}, Spec{Algorithm: BucketedWindow,
			Window: us}},
		"bucketed limit": {Spec{Algorithm: BucketedWindow, Limit: 999_999_999_999_999, Window: us, Buckets: 1},
			Spec{Algorithm: BucketedWindow, Limit: 1_000_000_000_000_000, Window: us, Buckets: 1}},
		"burst of nothing": {Spec{Algorithm: TokenBucket, Window: us, Burst: 1<<53 - 1},
			Spec{Algorithm: TokenBucket, Window: us, Burst: 1 << 53}},
		"bucket": {Spec{Algorithm: TokenBucket, Limit: 1 << 20, Window: 3 * us, Burst: (1<<53 - 1) / 3},
			Spec{Algorithm: TokenBucket, Limit: 1 << 20, Window: 3 * us, Burst: (1<<53-1)/3 + 1}},
		"bucket with a reserve": {
			Spec{Algorithm: TokenBucket, Limit: 1 << 20, Window: 3 * us, Burst: (1<<53 - 1) / 3, Reserve: 1 << 50},
			Spec{Algorithm: TokenBucket, Limit: 1 << 20, Window: 3 * us, Burst: (1<<53-1)/3 + 1, Reserve: 1 << 50}},
		"time to fill with a reserve": {Spec{Algorithm: GCRA, Limit: 1, Window: us, Burst: 1<<46 - 1, Reserve: 9},
			Spec{Algorithm: GCRA, Limit: 1, Window: us, Burst: 1 << 46, Reserve: 9}},
		"time to fill": {Spec{Algorithm: TokenBucket, Limit: 1, Window: us, Burst: 1 << 46},
			Spec{Algorithm: TokenBucket, Limit: 1, Window: us, Burst: 1<<46 + 1}},
		"wait of a bucket": {
			Spec{Algorithm: TokenBucket, Limit: 1 << 20, Window: 3 * us, Burst: (1<<53 - 1 - 1<<20) / 3, Wait: us},
			Spec{Algorithm: TokenBucket, Limit: 1 << 20, Window: 3 * us, Burst: (1<<53-1-1<<20)/3 + 1, Wait: us}},
		"wait of a bucket with the time to fill": {
			Spec{Algorithm: TokenBucket, Limit: 1, Window: 2 * us, Burst: 1<<45 - 1, Wait: 2 * us},
			Spec{Algorithm: TokenBucket, Limit: 1, Window: 2 * us, Burst: 1<<45 - 1, Wait: 3 * us}},
		"shortest warm-up": {Spec{Algorithm: WarmingUp, Window: us, WarmUp: 2 * us}, Spec{Algorithm: WarmingUp,
			Window: us, WarmUp: us}},
		"longest warm-up": {Spec{Algorithm: WarmingUp, Limit: 1, Window: us, WarmUp: (1<<44 - 1) * us},
			Spec{Algorithm: WarmingUp, Limit: 1, Window: us, WarmUp: 1 << 44 * us}},
		"warm-up in units": {Spec{Algorithm: WarmingUp, Limit: 3, Window: time.Second, WarmUp: (1<<44 - 1) / 3 * us},
			Spec{Algorithm: WarmingUp, Limit: 3, Window: time.Second, WarmUp: ((1<<44-1)/3 + 1) * us}},
		"debt and warmth": {Spec{Algorithm: WarmingUp, Limit: 1, Window: (1<<44 - 2) * us, WarmUp: 4 * us,
			Wait: 4 * us},
			Spec{Algorithm: WarmingUp, Limit: 1, Window: (1<<44 - 2) * us, WarmUp: 5 * us, Wait: 4 * us}},
		"debt and warmth in units": {
			Spec{Algorithm: WarmingUp, Limit: 1021, Window: 2_000_000 * us, WarmUp: 1000 * us,
				Wait: (1<<53-1)/1021*us - 8_001_000*us},
			Spec{Algorithm: WarmingUp, Limit: 1021, Window: 2_000_000 * us, WarmUp: 1000 * us,
				Wait: (1<<53-1)/1021*us - 8_000_999*us}},
	} {
		if _, err := c.last.Compile(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := c.first.Compile(); err == nil {
			t.Errorf("%s: %+v is valid: %+v", name, c.first, got)
		}
	}
	if got := Micros(time.Unix(1<<40, 0)); got != 1<<53-1-1<<47 {
		t.Errorf("the latest time is %d", got)
	}
}

// A state of each kind is converted to each other spec: it has its cost, rounded up, bounded by the capacity.
func TestStateUnderAnotherSpec(t *testing.T) {
	t.Parallel()
	const now = 1_000_000_250_000
	at := time.UnixMicro(now)
	bucket := Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 20}
	for _, c := range []struct {
		from Spec
		cost int64
		to   Spec
		want State
	}{
		{bucket, 7, Spec{Algorithm: FixedWindow, Limit: 5, Window: time.Minute}, State{KindFixed, now, 5, 60e6, 0}},
		{bucket, 7, Spec{Algorithm: SlidingWindow, Limit: 50, Window: time.Minute}, State{KindSliding, now, 7, 60e6,
			0}},
		{bucket, 7, Spec{Algorithm: AnchoredWindow, Limit: 50, Window: time.Minute}, State{KindAnchored, now, 7, 60e6,
			now}},
		{bucket, 7, Spec{Algorithm: SlidingLog, Limit: 6, Window: time.Minute}, State{KindLog, now, 6, 60e6, now}},
		{bucket, 7, Spec{Algorithm: TokenBucket, Limit: 20, Window: time.Second, Burst: 30}, State{KindBucket, now,
			7 * 50_000, 50_000, 1}},
		{bucket, 20, Spec{Algorithm: GCRA, Limit: 10, Window: time.Second, Burst: 8}, State{KindBucket, now,
			9 * 100_000, 100_000, 1}},
		{bucket, 20, Spec{Algorithm: GCRA, Limit: 10, Window: time.Second, Burst: 8, Wait: 40 * time.Millisecond},
			State{KindBucket, now, 940_000, 100_000, 1}}, // as much as fits, and 0.4 of a token may be owed
		{bucket, 20, Spec{Algorithm: GCRA, Limit: 20, Window: time.Second, Burst: 8, Wait: 20 * time.Millisecond},
			State{KindBucket, now, 9 * 50_000, 50_000, 1}},
		// the state is cut to the whole bucket, and not to the tokens beside the reserve
		{bucket, 20, Spec{Algorithm: GCRA, Limit: 10, Window: time.Second, Burst: 8, Reserve: 4},
			State{KindBucket, now, 9 * 100_000, 100_000, 1}},
		{bucket, 20, Spec{Algorithm: GCRA, Limit: 20, Window: time.Second, Burst: 8, Reserve: 4},
			State{KindBucket, now, 9 * 50_000, 50_000, 1}},
		{bucket, 7, Spec{Algorithm: WarmingUp, Limit: 5, Window: time.Second, WarmUp: time.Second},
			State{KindWarm, now, 5 * 200_000, 1, 0}},
		{bucket, 3, Spec{Algorithm: WarmingUp, Limit: 5, Window: time.Second, WarmUp: time.Second},
			State{KindWarm, now, 3 * 200_000, 1, 0}},
		{Spec{Algorithm: FixedWindow, Limit: 9, Window: time.Second}, 4, bucket, State{KindBucket, now, 4 * 100_000,
			100_000, 1}},
		{Spec{Algorithm: WarmingUp, Limit: 5, Window: time.Second, WarmUp: time.Second}, 1, bucket,
			State{KindBucket, now, 20 * 100_000, 100_000, 1}},
		{Spec{Algorithm: WarmingUp, Limit: 5, Window: time.Second, WarmUp: time.Second}, 1,
			Spec{Algorithm: WarmingUp, Limit: 7, Window: time.Second, WarmUp: 2 * time.Second},
			State{KindWarm, now, 7 * 720_000, 7, 7 * 200_000}}, // 200 ms of warmth, and 520 ms of debt for it
	} {
		from, err := c.from.Compile()
		if err != nil {
			t.Fatal(err)
		}
		to, err := c.to.Compile()
		if err != nil {
			t.Fatal(err)
		}
		var s State
		if o := from.Charge(&s, nil, Micros(at), c.cost); !o.Allowed {
			t.Fatalf("%+v: %+v", c.from, o)
		}
		if got := to.convertState(&s); *got != c.want {
			t.Errorf("%+v as %s: %+v, want %+v", s, c.to.Algorithm, *got, c.want)
		}
	}
}

// How long the caller of an allowed cost waits, of each limit that lets callers wait.
func TestWaitFor(t *testing.T) {
	t.Parallel()
	leaky := Spec{Algorithm: LeakyBucket, Limit: 10, Window: time.Second, Burst: 4}
	bucket := Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 2, Wait: 300 * time.Millisecond}
	part := Spec{Algorithm: TokenBucket, Limit: 2, Window: time.Second, Burst: 2, Wait: 400 * time.Millisecond}
	partLeaky := part
	partLeaky.Algorithm = LeakyBucket
	for _, c := range []struct {
		spec        Spec
		cost        int64
		reset, want time.Duration
	}{
		{leaky, 1, 500 * time.Millisecond, 400 * time.Millisecond},
		{leaky, 5, 500 * time.Millisecond, 0},
		{leaky, 5, 501 * time.Millisecond, time.Millisecond},
		{leaky, 6, time.Hour, 0}, // it never passes
		{leaky, 0, time.Second, 0},
		{Spec{Algorithm: LeakyBucket, Limit: 3, Window: time.Second, Burst: 4}, 1, time.Second,
			time.Second - 333_334*us},
		{bucket, 1, 200 * time.Millisecond, 0},
		{bucket, 1, 500 * time.Millisecond, 300 * time.Millisecond},
		{bucket, 5, 500 * time.Millisecond, 300 * time.Millisecond},
		{bucket, 6, time.Hour, 0},
		// of 2.8 tokens 2 remain when 0.8 are missing, and the burst is there 600 ms before that
		{part, 1, time.Second, 400 * time.Millisecond},
		{part, 1, 600 * time.Millisecond, 0},
		{partLeaky, 1, time.Second, 900 * time.Millisecond},
		{partLeaky, 1, 100 * time.Millisecond, 0},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 2}, 1, time.Hour, 0},
		{Spec{Algorithm: FixedWindow, Limit: 10, Window: time.Second, Wait: time.Second}, 1, time.Hour, 0}, // invalid
	} {
		if got := c.spec.WaitFor(c.cost, c.reset); got != c.want {
			t.Errorf("%+v, cost %d, reset %v: %v, want %v", c.spec, c.cost, c.reset, got, c.want)
		}
	}
}

// One of n processes alone, at and beside the window that still is exact.
func TestShareOfAWindow(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		spec Spec
		n    int64
		want Spec
	}{
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: 100 * day, Burst: 10}, 2,
			Spec{Algorithm: TokenBucket, Limit: 10, Window: 200 * day, Burst: 5}},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: 100*day + us, Burst: 10}, 2,
			Spec{Algorithm: TokenBucket, Limit: 5, Window: 100*day + us, Burst: 5}},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 10, InitialDeficit: 4}, 2,
			Spec{Algorithm: TokenBucket, Limit: 10, Window: 2 * time.Second, Burst: 5, InitialDeficit: 2}},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 20, Reserve: 10}, 3,
			Spec{Algorithm: TokenBucket, Limit: 10, Window: 3 * time.Second, Burst: 6, Reserve: 3}},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 20, Reserve: 7}, 3,
			Spec{Algorithm: TokenBucket, Limit: 10, Window: 3 * time.Second, Burst: 6, Reserve: 2}},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 20, Reserve: 19}, 20,
			Spec{Algorithm: TokenBucket, Limit: 10, Window: 20 * time.Second, Burst: 1}},
		{Spec{Algorithm: GCRA, Limit: 10, Window: time.Second, Burst: 8, Reserve: 4}, 2,
			Spec{Algorithm: GCRA, Limit: 10, Window: 2 * time.Second, Burst: 3, Reserve: 1}},
		{Spec{Algorithm: GCRA, Limit: 10, Window: time.Second}, 3, Spec{Algorithm: GCRA, Limit: 10,
			Window: 3 * time.Second}},
		{Spec{Algorithm: FixedWindow, Limit: 2, Window: time.Second}, 3, Spec{Algorithm: FixedWindow, Limit: 1,
			Window: time.Second}},
		{Spec{Algorithm: FixedWindow, Window: time.Second}, 3, Spec{Algorithm: FixedWindow, Window: time.Second}},
		{Spec{Algorithm: WarmingUp, Limit: 2, Window: time.Second, WarmUp: time.Second}, math.MaxInt64,
			Spec{Algorithm: WarmingUp, Limit: 1, Window: time.Second, WarmUp: time.Second}},
	} {
		if got := c.spec.Share(c.n); got != c.want {
			t.Errorf("%+v of %d: %+v, want %+v", c.spec, c.n, got, c.want)
		}
	}
}

// A refund takes out of its own window and its own limit only, and never below nothing.
func TestRefundStaysInItsWindow(t *testing.T) {
	t.Parallel()
	const now = 10_500_000
	sliding, begun := State{KindSliding, now, 5, 1e6, 4}, State{KindAnchored, now, 5, 1e6, now - 7}
	anchored := Spec{Algorithm: AnchoredWindow, Limit: 9, Window: time.Second}
	for _, c := range []struct {
		spec       Spec
		s          State
		then, cost int64
		want       State
	}{
		{Spec{Algorithm: SlidingWindow, Limit: 9, Window: time.Second}, sliding, now, 3, State{KindSliding, now, 2,
			1e6, 4}},
		{Spec{Algorithm: SlidingWindow, Limit: 9, Window: time.Second}, sliding, now, 9, State{KindSliding, now, 0,
			1e6, 4}},
		{Spec{Algorithm: SlidingWindow, Limit: 9, Window: time.Second}, sliding, now - 1e6, 3, State{KindSliding, now,
			5, 1e6, 1}},
		{Spec{Algorithm: SlidingWindow, Limit: 9, Window: time.Second}, sliding, now - 1e6, 9, State{KindSliding, now,
			5, 1e6, 0}},
		{Spec{Algorithm: SlidingWindow, Limit: 9, Window: time.Second}, sliding, now - 2e6, 3, sliding},
		{Spec{Algorithm: SlidingWindow, Limit: 9, Window: time.Second}, sliding, now + 1e6, 3, sliding},
		{Spec{Algorithm: SlidingWindow, Limit: 9, Window: time.Second}, sliding, now, 10, sliding},
		// it was never charged
		{Spec{Algorithm: SlidingWindow, Limit: 9, Window: 2 * time.Second}, sliding, now, 3, sliding},
		{Spec{Algorithm: FixedWindow, Limit: 9, Window: time.Second}, sliding, now, 3, sliding},
		{Spec{Algorithm: FixedWindow, Limit: 9, Window: time.Second}, State{KindFixed, now, 2, 1e6, 0}, now, 9,
			State{KindFixed, now, 0, 1e6, 0}},
		{anchored, begun, now - 7, 3, begun}, // without this charge the window began later
		{anchored, begun, now - 6, 3, State{KindAnchored, now, 2, 1e6, now - 7}},
		{anchored, begun, now - 7, 5, State{KindAnchored, now, 0, 1e6, now - 7}},
		{anchored, begun, now - 8, 5, begun},
		{anchored, begun, now - 7 + 1e6 - 1, 3, State{KindAnchored, now, 2, 1e6, now - 7}},
		{anchored, begun, now - 7 + 1e6, 3, begun},
		{anchored, State{KindAnchored, now, 5, 1e6, now}, now, 3, State{KindAnchored, now, 2, 1e6, now}},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 9}, State{KindBucket, now, 500_000, 1e5,
			1},
			now - 50_000, 2, State{KindBucket, now, 350_000, 1e5, 1}},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 9}, State{KindBucket, now, 500_000, 1e5,
			1},
			now - 200_000, 2, State{KindBucket, now, 500_000, 1e5, 1}},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 9}, State{KindBucket, now, 500_000, 1e5,
			1},
			now + 50_000, 2, State{KindBucket, now, 300_000, 1e5, 1}},
		// more is missing than the refunded charge could take
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: time.Second, Burst: 9, Reserve: 5},
			State{KindBucket, now, 900_000, 1e5, 1}, now, 2, State{KindBucket, now, 700_000, 1e5, 1}},
	} {
		terms, err := c.spec.Compile()
		if err != nil {
			t.Fatal(err)
		}
		s := c.s
		if terms.Refund(&s, nil, c.then, c.cost); s != c.want {
			t.Errorf("%s: %+v less %d of %d: %+v, want %+v", c.spec.Algorithm, c.s, c.cost, c.then, s, c.want)
		}
	}
}
