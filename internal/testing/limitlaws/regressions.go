package limitlaws

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// atMost takes up to n, as far as the limit allows, and returns the number that it took.
func (s store) atMost(now int64, spec limit.Spec, n int64) int64 {
	s.t.Helper()
	n = min(n, s.ask(now, "a", spec, 0).Remaining)
	if n > 0 && !s.ask(now, "a", spec, n).Allowed {
		s.t.Fatalf("U4: %d remained at %d us, and are denied", n, now)
	}
	return n
}

// testSaturation checks that the total of a client that takes all remaining tokens does not depend on the rate of its
// calls.
func testSaturation(t *testing.T, f Fixture) {
	for _, spec := range []limit.Spec{bucket(10, 10, 1000), gcra(9, 10, 1000)} {
		testSaturationOf(t, f, spec)
	}
}

func testSaturationOf(t *testing.T, f Fixture, spec limit.Spec) {
	s := store{f, t}
	for every, want := range map[int64]int64{1: 69, 7: 69, 33: 69, 50: 69, 99: 69, 100: 69, 101: 69, 333: 69, 150: 68,
		250: 67} {
		f.Reset()
		var got int64
		for ms := int64(0); ms < 6000; ms += every {
			got += s.atMost(ms*1000, spec, 10)
		}
		if got != want {
			t.Errorf("%s of 10/s, 10 at once, asked every %d ms for 6 s: %d granted, want %d", spec.Algorithm, every,
				got, want)
		}
	}
}

// testFaults checks that this store has no fault that widely used limiters have.
func testFaults(t *testing.T, f Fixture) {
	s := store{f, t}
	verdicts := func(name string, spec limit.Spec, rows ...row) {
		t.Helper()
		f.Reset()
		for i, r := range rows {
			if got := s.ask(r.t*1000, "a", spec, r.cost); got.Allowed != r.allowed {
				t.Errorf("%s: row %d: %+v", name, i, got)
			}
		}
	}
	a := func(ms, cost int64) row { return row{t: ms, cost: cost, allowed: true} }
	d := func(ms, cost int64) row { return row{t: ms, cost: cost} }
	verdicts("denied calls deepen the debt", bucket(5, 1, 1000), a(0, 3), d(0, 3), a(0, 1), a(0, 1), d(0, 1))
	verdicts("denied weighted call is charged", fixed(5, 1000), a(0, 3), d(0, 3), a(0, 2), d(0, 1))
	verdicts("denied weighted call is charged", anchored(5, 1000), a(0, 3), d(0, 3), a(0, 2), d(0, 1))
	verdicts("a hit prolongs the window", anchored(2, 1000), a(0, 1), a(999, 1), d(999, 1), a(1000, 2), d(1999, 1),
		a(2000, 1))
	verdicts("denied weighted call is charged", logged(5, 1000), a(0, 3), d(0, 3), a(0, 2), d(0, 1))
	verdicts("denied weighted call is charged", bucketed(5, 1000, 10), a(0, 3), d(0, 3), a(0, 2), d(0, 1))
	verdicts("denied weighted call is charged", sliding(5, 1000), a(0, 3), d(0, 3), a(0, 2), d(0, 1))
	verdicts("limiter off when burst < rate/2", bucket(4, 10, 1000), a(0, 1), a(0, 1), a(0, 1), a(0, 1), d(0, 1),
		d(0, 1))
	verdicts("limiter off when burst < rate/2", gcra(3, 10, 1000), a(0, 1), a(0, 1), a(0, 1), a(0, 1), d(0, 1), d(0, 1))
	verdicts("caller's clock behind refills twice", bucket(4, 100, 1000), a(1000, 4), d(990, 1), d(1000, 1), d(1009, 1),
		a(1010, 1))

	// The bound of 2 x Limit around the edge of a fixed window is reached. The sliding window holds Limit.
	for spec, want := range map[limit.Spec]int64{
		fixed(100, 500): 200, sliding(100, 500): 100, logged(100, 500): 100, bucketed(100, 500, 10): 100,
	} {
		f.Reset()
		if got := s.atMost(499_999, spec, 100) + s.atMost(500_000, spec, 100); got != want {
			t.Errorf("%+v: %d within 1 us around the edge, want %d", spec, got, want)
		}
	}

	// State must not expire before the limit is full again.
	f.Reset()
	granted := 0
	for ms := int64(0); ms < 6000; ms += 10 {
		if f.Expire != nil {
			f.Expire(time.UnixMilli(ms))
		}
		if s.ask(ms*1000, "a", bucket(1, 1, 1900), 1).Allowed {
			granted++
		}
	}
	if granted != 4 {
		t.Errorf("1 per 1.9 s for 6 s: %d granted, want 4", granted)
	}
}

// testBadInput checks that mistakes of the caller are errors and charge nothing.
func testBadInput(t *testing.T, f Fixture) {
	f.Reset()
	s, good := store{f, t}, bucket(10, 10, 1000)
	s.ask(0, "a", good, 4)
	rejected := func(name string, want error, results int, charges ...limit.Charge) {
		t.Helper()
		_, err := f.Store.Take(context.Background(), time.UnixMicro(0), charges, make([]limit.Result, results))
		if err == nil || (want != nil && !errors.Is(err, want)) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	rejected("negative cost mints tokens", limit.ErrNegativeCost, 1, charge("a", good, -5))
	rejected("negative cost behind a good one", limit.ErrNegativeCost, 2, charge("a", good, 1), charge("b", good, -1))
	rejected("no result", limit.ErrChargeCount, 0, charge("a", good, 1))
	rejected("too many", limit.ErrChargeCount, 65, make([]limit.Charge, 65)...)
	for _, bad := range []limit.Spec{
		{}, {Algorithm: "leaking", Limit: 1, Window: time.Second},
		bucket(1, 1, 0), bucket(1, 1, -5), bucket(1, -1, 1000), bucket(-1, 1, 1000),
		logged(limitcore.MaxLog+1, 1000), bucketed(1, 1000, 0), bucketed(1, 1000, 3), bucketed(1, 1000, 1001),
		anchored(-1, 1000), fixed(-1, 1000), fixed(1, 0), sliding(1, -1),
		{Algorithm: limit.FixedWindow, Limit: 1, Window: 1500 * time.Nanosecond},
		{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 2, Reserve: 2},
		sliding(1<<40, 60_000), bucket(1<<40, 7, 60_000), fixed(1<<53, 1000),
	} {
		rejected("bad spec", nil, 2, charge("a", good, 1), charge("b", bad, 1))
	}
	if left := s.ask(0, "a", good, 0).Remaining; left != 6 {
		t.Errorf("after rejected calls %d remain, want 6", left)
	}
	if admitted, _ := s.take(0); !admitted {
		t.Error("no charges: not admitted")
	}
	most := fixed(1<<53-1, 1000)
	if _, results := s.take(0, charge("most", most, 0),
		charge("most", most, 1<<53)); results[1].RetryAfter != hottype.Never {
		t.Errorf("one more than the largest limit, behind a peek: %+v", results[1])
	}
}

// testConcurrent checks that many callers at one instant get exactly as much as one caller would get, and no errors
// (U10). Of two charges both count or neither (U3).
func testConcurrent(t *testing.T, f Fixture) {
	f.Reset()
	s, now := store{f, t}, int64(1_700_000_000_000_000)
	wideSpec, narrow := bucket(500, 1, 1000), sliding(300, 60_000)
	s.ask(now, "wide", wideSpec, 0) // sets the clock, once
	var admitted, failed atomic.Int64
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			charges, results := []limit.Charge{charge("wide", wideSpec, 1), charge("narrow", narrow, 1)},
				make([]limit.Result, 2)
			for range 10 {
				switch ok, err := f.Store.Take(context.Background(), time.UnixMicro(now), charges, results); {
				case err != nil:
					failed.Add(1)
				case ok:
					admitted.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if admitted.Load() != 300 || failed.Load() != 0 {
		t.Errorf("640 calls against 500 and 300: %d admitted, %d errors", admitted.Load(), failed.Load())
	}
	if left := s.ask(now, "wide", wideSpec, 0).Remaining; left != 200 {
		t.Errorf("%d left of the wide limit, want 200", left)
	}
}
