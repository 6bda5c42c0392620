package limit

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	second, day := time.Second, 24*time.Hour
	for _, c := range []struct {
		spec Spec
		want string // part of the error, "" for none
	}{
		{Spec{TokenBucket, 100, second, 200, 0}, ""},
		{Spec{TokenBucket, 0, second, 200, 0}, ""},
		{Spec{TokenBucket, 100, second, 0, 0}, ""},
		{Spec{TokenBucket, 5_000_000, second, 10_000_000, 0}, ""}, // five tokens a microsecond
		{Spec{TokenBucket, 1, 365 * day, 1, 0}, ""},
		{Spec{GCRA, 100, second, 0, 0}, ""},
		{Spec{FixedWindow, maxExact, day, 0, 0}, ""},
		{Spec{AnchoredWindow, maxExact, day, 0, 0}, ""},
		{Spec{SlidingWindow, 100_000, day, 0, 0}, ""},
		{Spec{SlidingWindow, 1, 400 * day, 0, 0}, ""},
		{Spec{"", 1, second, 1, 0}, `unknown algorithm ""`},
		{Spec{"GCRA", 1, second, 1, 0}, `unknown algorithm "GCRA"`},
		{Spec{FixedWindow, 1, 0, 0, 0}, "window 0s must be positive"},
		{Spec{FixedWindow, 1, -second, 0, 0}, "must be positive"},
		{Spec{FixedWindow, 1, 1500, 0, 0}, "whole microseconds"},
		{Spec{FixedWindow, 1, 408 * day, 0, 0}, "407 days"},
		{Spec{FixedWindow, -1, second, 0, 0}, "limit -1"},
		{Spec{FixedWindow, math.MaxInt64, second, 0, 0}, "2^53"},
		{Spec{SlidingWindow, 110_000, day, 0, 0}, "2^53"},
		{Spec{SlidingLog, MaxLog, day, 0, 0}, ""},
		{Spec{SlidingLog, MaxLog + 1, day, 0, 0}, "at most 10000; choose bucketed_window"},
		{Spec{BucketedWindow, 1e15 - 1, day, 0, 1000}, ""},
		{Spec{BucketedWindow, 1e15, day, 0, 10}, "below 10^15"},
		{Spec{BucketedWindow, 1, second, 0, 0}, "buckets 0 must be in 1..1000"},
		{Spec{BucketedWindow, 1, second, 0, 3}, "cannot be cut into 3 buckets"},
		{Spec{TokenBucket, 1, second, -1, 0}, "burst -1"},
		{Spec{TokenBucket, 7, day, 1 << 30, 0}, "rounder rate"},
		{Spec{TokenBucket, 1, day, 1000, 0}, "token_bucket of burst 1000 at 1 per 24h0m0s takes more than 2.2 years"},
		{Spec{LeakyBucket, 100, second, 0, 0}, ""},
		{Spec{LeakyBucket, 1, second, maxExact, 0}, "leaky_bucket of burst"},
		{Spec{GCRA, 1, second, -1, 0}, "burst -1"},
		{Spec{GCRA, 1, second, maxExact, 0}, "gcra of burst"},
		{Spec{GCRA, 1, 400 * day, 2, 0}, "2.2 years"},
	} {
		err := c.spec.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: error %v, want %q", c.spec, err, c.want)
		}
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	for spec, want := range map[Spec]int64{
		{TokenBucket, 100, time.Second, 200, 0}: 200,
		{TokenBucket, 0, time.Second, 200, 0}:   0,
		{TokenBucket, 100, time.Second, 0, 0}:   0,
		{GCRA, 100, time.Second, 0, 0}:          1,
		{GCRA, 100, time.Second, 7, 0}:          8,
		{GCRA, 0, time.Second, 7, 0}:            0,
		{FixedWindow, 50, time.Second, 99, 0}:   50,
		{SlidingWindow, 0, time.Second, 99, 0}:  0,
	} {
		if got := spec.Capacity(); got != want {
			t.Errorf("%+v: %d, want %d", spec, got, want)
		}
		if terms, err := spec.Terms(); err != nil || terms.Capacity != want {
			t.Errorf("%+v: terms %+v, %v", spec, terms, err)
		}
	}
}

// What Validate accepts keeps every product below 2^53 and means what the spec
// says: Fill units a microsecond, Unit of them a token, is Limit a Window.
func TestTermsAreExact(t *testing.T) {
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
			Algorithm: rapid.SampledFrom([]Algorithm{TokenBucket, GCRA, LeakyBucket, FixedWindow, AnchoredWindow, SlidingWindow, SlidingLog, BucketedWindow}).Draw(rt, "algorithm"),
			Limit:     any("limit"), Burst: any("burst"),
			Window:  time.Duration(any("window")) / time.Microsecond * time.Microsecond,
			Buckets: 1,
		}
		terms, err := spec.Terms()
		if err != nil {
			return
		}
		exact := below(terms.Capacity, 1)
		if terms.Kind == KindBucket || terms.Kind == KindSliding {
			exact = exact && below(terms.Capacity, terms.Unit)
		}
		if !exact {
			rt.Fatalf("%+v: %+v", spec, terms)
		}
		if terms.Kind != KindBucket || spec.Limit == 0 {
			return
		}
		is := new(big.Int).Mul(big.NewInt(terms.Fill), big.NewInt(spec.Window.Microseconds()))
		if want := new(big.Int).Mul(big.NewInt(spec.Limit), big.NewInt(terms.Unit)); is.Cmp(want) != 0 {
			rt.Fatalf("%+v: %+v is another rate", spec, terms)
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
		if got := micros(c.at); got != c.want {
			t.Errorf("%v: %d, want %d", c.at, got, c.want)
		}
	}
}
