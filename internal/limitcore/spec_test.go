package limitcore

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func TestSpec_Validate(t *testing.T) {
	t.Parallel()
	second, day := time.Second, 24*time.Hour
	for _, c := range []struct {
		spec Spec
		want string // part of the error, or "" if there is no error
	}{
		{Spec{Algorithm: TokenBucket, Limit: 100, Window: second, Burst: 200}, ""},
		{Spec{Algorithm: TokenBucket, Window: second, Burst: 200}, ""},
		{Spec{Algorithm: TokenBucket, Limit: 100, Window: second}, ""},
		// five tokens a microsecond
		{Spec{Algorithm: TokenBucket, Limit: 5_000_000, Window: second, Burst: 10_000_000}, ""},
		{Spec{Algorithm: TokenBucket, Limit: 1, Window: 365 * day, Burst: 1}, ""},
		{Spec{Algorithm: GCRA, Limit: 100, Window: second}, ""},
		{Spec{Algorithm: FixedWindow, Limit: maxExact, Window: day}, ""},
		{Spec{Algorithm: AnchoredWindow, Limit: maxExact, Window: day}, ""},
		{Spec{Algorithm: SlidingWindow, Limit: 100_000, Window: day}, ""},
		{Spec{Algorithm: SlidingWindow, Limit: 1, Window: 400 * day}, ""},
		{Spec{Limit: 1, Window: second, Burst: 1}, `unknown algorithm ""`},
		{Spec{Algorithm: "GCRA", Limit: 1, Window: second, Burst: 1}, `unknown algorithm "GCRA"`},
		{Spec{Algorithm: FixedWindow, Limit: 1}, "window 0s must be positive"},
		{Spec{Algorithm: FixedWindow, Limit: 1, Window: -second}, "must be positive"},
		{Spec{Algorithm: FixedWindow, Limit: 1, Window: 1500}, "whole microseconds"},
		{Spec{Algorithm: FixedWindow, Limit: 1, Window: 408 * day}, "407 days"},
		{Spec{Algorithm: FixedWindow, Limit: -1, Window: second}, "limit -1"},
		{Spec{Algorithm: FixedWindow, Limit: math.MaxInt64, Window: second}, "2^53"},
		{Spec{Algorithm: SlidingWindow, Limit: 110_000, Window: day}, "2^53"},
		{Spec{Algorithm: SlidingLog, Limit: MaxLog, Window: day}, ""},
		{Spec{Algorithm: SlidingLog, Limit: MaxLog + 1, Window: day}, "at most 10000; choose bucketed_window"},
		{Spec{Algorithm: BucketedWindow, Limit: 1e15 - 1, Window: day, Buckets: 1000}, ""},
		{Spec{Algorithm: BucketedWindow, Limit: 1e15, Window: day, Buckets: 10}, "below 10^15"},
		{Spec{Algorithm: BucketedWindow, Limit: 1, Window: second}, "buckets 0 must be in 1..1000"},
		{Spec{Algorithm: BucketedWindow, Limit: 1, Window: second, Buckets: 3}, "cannot be cut into 3 buckets"},
		{Spec{Algorithm: TokenBucket, Limit: 1, Window: second, Burst: -1}, "burst -1"},
		{Spec{Algorithm: TokenBucket, Limit: 7, Window: day, Burst: 1 << 30}, "rounder rate"},
		{Spec{Algorithm: TokenBucket, Limit: 1, Window: day, Burst: 1000},
			"token_bucket of burst 1000 at 1 per 24h0m0s takes more than 2.2 years"},
		{Spec{Algorithm: LeakyBucket, Limit: 100, Window: second}, ""},
		{Spec{Algorithm: LeakyBucket, Limit: 1, Window: second, Burst: maxExact}, "leaky_bucket of burst"},
		{Spec{Algorithm: GCRA, Limit: 1, Window: second, Burst: -1}, "burst -1"},
		{Spec{Algorithm: GCRA, Limit: 1, Window: second, Burst: maxExact}, "gcra of burst"},
		{Spec{Algorithm: GCRA, Limit: 1, Window: 400 * day, Burst: 2}, "2.2 years"},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: second, Burst: 5, InitialDeficit: 5, Wait: time.Minute,
			Block: second, BlockMax: day}, ""},
		{Spec{Algorithm: SlidingLog, Limit: 10, Window: second, Block: second}, ""},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: second, Burst: 5, InitialDeficit: 6},
			"burst 5 cannot start 6 tokens short"},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: second, Burst: 5, InitialDeficit: -1},
			"cannot start -1 tokens short"},
		{Spec{Algorithm: GCRA, Limit: 10, Window: second, Burst: 5, InitialDeficit: 1},
			"gcra starts with nothing taken"},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: second, Burst: 5, Wait: -1}, "wait -1ns must be"},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: second, Burst: 5, Wait: 1}, "wait 1ns must be whole"},
		{Spec{Algorithm: TokenBucket, Limit: maxExact, Window: second, Burst: 5, Wait: 400 * day}, "beyond 2^53"},
		{Spec{Algorithm: FixedWindow, Limit: 10, Window: second, Wait: second}, "wait 1s is not supported by fixed_window; use token_bucket, gcra, leaky_bucket or warming_up"},
		{Spec{Algorithm: FixedWindow, Limit: 10, Window: second, Block: 408 * day}, "block 9792h0m0s must be"},
		{Spec{Algorithm: FixedWindow, Limit: 10, Window: second, Block: second, BlockMax: 1000}, "shorter than block"},
		{Spec{Algorithm: FixedWindow, Limit: 10, Window: second, BlockMax: second}, "without a block"},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: second, Burst: 5, Reserve: 4}, ""},
		{Spec{Algorithm: GCRA, Limit: 10, Window: second, Burst: 5, Reserve: 5}, ""},
		{Spec{Algorithm: TokenBucket, Window: second, Burst: 5, Reserve: 4}, ""},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: second, Burst: 5, Reserve: 5},
			"reserve 5 of burst 5 must be in 0..4"},
		{Spec{Algorithm: GCRA, Limit: 10, Window: second, Burst: 5, Reserve: 6},
			"reserve 6 of burst 5 must be in 0..5"},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: second, Burst: 5, Reserve: -1},
			"reserve -1 of burst 5 must be"},
		{Spec{Algorithm: LeakyBucket, Limit: 10, Window: second, Burst: 5, Reserve: 1},
			"reserve 1 is not supported by leaky_bucket; use token_bucket or gcra"},
		{Spec{Algorithm: FixedWindow, Limit: 10, Window: second, Reserve: 1}, "not supported by fixed_window"},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: second, Burst: 5, Reserve: 1, Wait: second},
			"reserve 1 cannot be combined with a wait, a block or an initial deficit"},
		{Spec{Algorithm: GCRA, Limit: 10, Window: second, Burst: 5, Reserve: 1, Block: second}, "cannot be combined"},
		{Spec{Algorithm: TokenBucket, Limit: 10, Window: second, Burst: 5, Reserve: 1, InitialDeficit: 1},
			"cannot be combined"},
		{Spec{Algorithm: WarmingUp, Limit: 1_700_001, Window: second, WarmUp: 10 * second, Wait: time.Minute}, ""},
		{Spec{Algorithm: WarmingUp, Limit: 10, Window: second, WarmUp: 203 * day, Wait: 400 * day}, ""},
		{Spec{Algorithm: WarmingUp, Limit: 10, Window: second}, "warm-up 0s must be"},
		{Spec{Algorithm: WarmingUp, Limit: 10, Window: second, WarmUp: time.Microsecond}, "warm-up 1µs must be"},
		{Spec{Algorithm: WarmingUp, Limit: 10, Window: second, WarmUp: -second}, "warm-up -1s must be"},
		{Spec{Algorithm: WarmingUp, Limit: 10, Window: second, WarmUp: second + 1}, "whole microseconds"},
		{Spec{Algorithm: WarmingUp, Limit: 10, Window: second, WarmUp: 204 * day}, "203 days"},
		{Spec{Algorithm: WarmingUp, Limit: 7, Window: 400 * day, WarmUp: second}, "rounder rate"},
		{Spec{Algorithm: WarmingUp, Limit: maxExact, Window: second, WarmUp: second}, "rounder rate"},
	} {
		_, err := c.spec.Compile()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: error %v, want %q", c.spec, err, c.want)
		}
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	for spec, want := range map[Spec]int64{
		{Algorithm: TokenBucket, Limit: 100, Window: time.Second, Burst: 200}:              200,
		{Algorithm: TokenBucket, Window: time.Second, Burst: 200}:                          0,
		{Algorithm: TokenBucket, Limit: 100, Window: time.Second}:                          0,
		{Algorithm: TokenBucket, Limit: 100, Window: time.Second, Burst: 200, Reserve: 50}: 150,
		{Algorithm: TokenBucket, Window: time.Second, Burst: 200, Reserve: 50}:             0,
		{Algorithm: GCRA, Limit: 100, Window: time.Second, Burst: 7, Reserve: 7}:           1,
		{Algorithm: GCRA, Limit: 100, Window: time.Second}:                                 1,
		{Algorithm: GCRA, Limit: 100, Window: time.Second, Burst: 7}:                       8,
		{Algorithm: GCRA, Window: time.Second, Burst: 7}:                                   0,
		{Algorithm: FixedWindow, Limit: 50, Window: time.Second, Burst: 99}:                50,
		{Algorithm: SlidingWindow, Window: time.Second, Burst: 99}:                         0,
	} {
		if got := spec.Capacity(); got != want {
			t.Errorf("%+v: %d, want %d", spec, got, want)
		}
		if compiled, err := spec.Compile(); err != nil || compiled.Capacity != want {
			t.Errorf("%+v: compiled %+v, %v", spec, compiled, err)
		}
	}
}

// A spec that Validate accepts keeps every product below 2^53, and its compiled form equals the spec: Fill units a
// microsecond, with Unit of them a token, is Limit a Window.
func TestCompile_TermsAreExact(t *testing.T) {
	t.Parallel()
	bound := big.NewInt(1 << 53)
	below := func(a, b int64) bool {
		return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)).Cmp(bound) < 0
	}
	rapid.Check(t, func(rt *rapid.T) {
		any := func(name string) int64 {
			return rapid.Int64Range(0, math.MaxInt64).Draw(rt, name) >> rapid.IntRange(0, 62).Draw(rt, "shift")
		}
		spec := Spec{
			Algorithm: rapid.SampledFrom([]hottype.Algorithm{TokenBucket, GCRA, LeakyBucket, FixedWindow,
				AnchoredWindow, SlidingWindow, SlidingLog, BucketedWindow}).Draw(rt, "algorithm"),
			Limit: any("limit"), Burst: any("burst"),
			Window:  time.Duration(any("window")) / time.Microsecond * time.Microsecond,
			Buckets: 1,
		}
		if spec.Burst > 0 && rapid.Bool().Draw(rt, "reserves") {
			spec.Reserve = rapid.Int64Range(0, spec.Burst-1).Draw(rt, "reserve")
		}
		compiled, err := spec.Compile()
		if err != nil {
			return
		}
		exact := below(compiled.Capacity, 1)
		if compiled.Kind == KindBucket || compiled.Kind == KindSliding {
			exact = exact && below(compiled.Capacity+compiled.Reserve/compiled.Unit, compiled.Unit)
		}
		if !exact {
			rt.Fatalf("%+v: %+v", spec, compiled)
		}
		if compiled.Kind != KindBucket || spec.Limit == 0 {
			return
		}
		is := new(big.Int).Mul(big.NewInt(compiled.Fill), big.NewInt(spec.Window.Microseconds()))
		if want := new(big.Int).Mul(big.NewInt(spec.Limit), big.NewInt(compiled.Unit)); is.Cmp(want) != 0 {
			rt.Fatalf("%+v: %+v is another rate", spec, compiled)
		}
	})
}

// Times outside the domain are moved to its edge, not around it.
func TestMicrosStaysInDomain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   time.Time
		want int64
	}{
		{time.Time{}, 0},
		{time.Unix(-1, 0), 0},
		{time.Unix(1, 999), 1_000_000},
		{time.Unix(1<<40, 0), maxTime},
	} {
		if got := Micros(c.at); got != c.want {
			t.Errorf("%v: %d, want %d", c.at, got, c.want)
		}
	}
}

// The specs have the emission intervals that the constructors of rates of throttled promise.
func TestCompile_EmissionIntervals(t *testing.T) {
	t.Parallel()
	for spec, want := range map[Spec]time.Duration{
		{Algorithm: GCRA, Limit: 24, Window: 24 * time.Hour}:  time.Hour,
		{Algorithm: GCRA, Limit: 6, Window: time.Hour}:        10 * time.Minute,
		{Algorithm: GCRA, Limit: 6, Window: time.Minute}:      10 * time.Second,
		{Algorithm: GCRA, Limit: 6, Window: 2 * time.Minute}:  20 * time.Second,
		{Algorithm: GCRA, Limit: 5, Window: time.Second}:      200 * time.Millisecond,
		{Algorithm: GCRA, Limit: 1, Window: 10 * time.Second}: 10 * time.Second,
	} {
		compiled, err := spec.Compile()
		if got := time.Duration(compiled.Unit/compiled.Fill) * time.Microsecond; err != nil || got != want {
			t.Errorf("%+v: a call every %v, want %v; %v", spec, got, want, err)
		}
	}
}
