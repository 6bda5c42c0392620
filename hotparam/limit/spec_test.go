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
		{Spec{TokenBucket, 100, second, 200}, ""},
		{Spec{TokenBucket, 0, second, 200}, ""},
		{Spec{TokenBucket, 100, second, 0}, ""},
		{Spec{TokenBucket, 5_000_000, second, 10_000_000}, ""}, // five tokens a microsecond
		{Spec{TokenBucket, 1, 365 * day, 1}, ""},
		{Spec{FixedWindow, maxExact, day, 0}, ""},
		{Spec{SlidingWindow, 100_000, day, 0}, ""},
		{Spec{SlidingWindow, 1, 400 * day, 0}, ""},
		{Spec{"", 1, second, 1}, `unknown algorithm ""`},
		{Spec{"gcra", 1, second, 1}, `unknown algorithm "gcra"`},
		{Spec{FixedWindow, 1, 0, 0}, "window 0s must be positive"},
		{Spec{FixedWindow, 1, -second, 0}, "must be positive"},
		{Spec{FixedWindow, 1, 1500, 0}, "whole microseconds"},
		{Spec{FixedWindow, 1, 408 * day, 0}, "407 days"},
		{Spec{FixedWindow, -1, second, 0}, "limit -1"},
		{Spec{FixedWindow, math.MaxInt64, second, 0}, "2^53"},
		{Spec{SlidingWindow, 110_000, day, 0}, "2^53"},
		{Spec{TokenBucket, 1, second, -1}, "burst -1"},
		{Spec{TokenBucket, 7, day, 1 << 30}, "rounder rate"},
		{Spec{TokenBucket, 1, day, 1000}, "2.2 years"},
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
		{TokenBucket, 100, time.Second, 200}: 200,
		{TokenBucket, 0, time.Second, 200}:   0,
		{TokenBucket, 100, time.Second, 0}:   0,
		{FixedWindow, 50, time.Second, 99}:   50,
		{SlidingWindow, 0, time.Second, 99}:  0,
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
			Algorithm: rapid.SampledFrom([]Algorithm{TokenBucket, FixedWindow, SlidingWindow}).Draw(rt, "algorithm"),
			Limit:     any("limit"), Burst: any("burst"),
			Window: time.Duration(any("window")) / time.Microsecond * time.Microsecond,
		}
		terms, err := spec.Terms()
		if err != nil {
			return
		}
		exact := below(terms.Capacity, 1)
		if terms.Kind != KindFixed {
			exact = exact && below(terms.Capacity, terms.Unit)
		}
		if !exact {
			rt.Fatalf("%+v: %+v", spec, terms)
		}
		if spec.Algorithm != TokenBucket || spec.Limit == 0 {
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
