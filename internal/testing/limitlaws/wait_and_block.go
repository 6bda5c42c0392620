package limitlaws

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// testWait checks that with a bounded wait a call is allowed if and only if the wait fits. Calls leave first in, first
// out, as early as a bucket without a wait would allow them, and not more of them in any interval.
func testWait(t *testing.T, f Fixture) {
	check(t, 1, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now := store{f, rt}, newClock(rt).now
		apart := rapid.Int64Range(1, 100_000).Draw(rt, "us apart")
		burst := rapid.Int64Range(1, 10).Draw(rt, "burst")
		spec := limit.Spec{
			Algorithm: limit.TokenBucket, Limit: 1, Window: time.Duration(apart) * time.Microsecond, Burst: burst,
			Wait: time.Duration(rapid.Int64Range(0, 6*apart).Draw(rt, "wait")) * time.Microsecond,
		}
		gone, last := oracle{spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: spec.Window,
			Burst: burst}}, int64(0)
		for range steps {
			now += rapid.Int64Range(0, 2*apart).Draw(rt, "ahead")
			cost := rapid.Int64Range(1, burst).Draw(rt, "cost")
			from := max(now, last)
			for !gone.fits(from, cost) && from <= now+micros(spec.Wait)+apart {
				from++
				if d := from - max(now, last); d > 64 { // in larger steps
					from = gone.earliest(max(now, last), cost)
				}
			}
			wait := s.delay(now, spec, cost)
			switch fits := from-now <= micros(spec.Wait); {
			case fits != (wait >= 0):
				rt.Fatalf("%+v: cost %d at %d may go on at %d: wait %d", spec, cost, now, from, wait)
			case fits && now+wait != from:
				rt.Fatalf("%+v: cost %d at %d goes on at %d, want %d", spec, cost, now, now+wait, from)
			case fits:
				last = from
				gone.log = append(gone.log, event{from, cost})
			}
		}
	})
}

// earliest returns the time at which a cost fits that does not fit now. It relies on fits being monotonic.
func (o *oracle) earliest(now, cost int64) int64 {
	low, high := now, now+1
	for !o.fits(high, cost) {
		low, high = high, high+2*(high-now)
	}
	for low+1 < high {
		if mid := (low + high) / 2; o.fits(mid, cost) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// blocker is a limit of 2 a second whose denials block for 3 s, then 6 s, then 10 s.
var blocker = limit.Spec{Algorithm: limit.FixedWindow, Limit: 2, Window: time.Second, Block: 3 * time.Second,
	BlockMax: 10 * time.Second}

// testBlockTape replays the life of a block.
func testBlockTape(t *testing.T, f Fixture) {
	f.Reset()
	s := store{f, t}
	for i, step := range []struct {
		ms, cost  int64
		allowed   bool
		remaining int64
		retry     time.Duration
	}{
		{0, 2, true, 0, 0},
		{100, 0, true, 0, 0},              // a peek begins no block
		{100, 3, false, 0, hottype.Never}, // nor does an impossible cost
		{1000, 1, true, 1, 0},
		{1500, 2, false, 0, 3 * time.Second},         // one too many: blocked until 4500
		{1600, 1, false, 0, 2900 * time.Millisecond}, // would have fitted, and prolongs nothing
		{2500, 0, true, 0, 0},
		{4499, 1, false, 0, time.Millisecond},
		{4500, 2, true, 0, 0},
		{4600, 1, false, 0, 6 * time.Second}, // soon after: twice as long, until 10,600
		{10_600, 2, true, 0, 0},
		{10_700, 1, false, 0, 10 * time.Second}, // twice, but at most 10 s: until 20,700
		{31_000, 2, true, 0, 0},                 // was absent for as long as the block
		{31_100, 1, false, 0, 3 * time.Second},  // so blocks begin at 3 s again
	} {
		r := s.ask(step.ms*1000, "a", blocker, step.cost)
		if r.Allowed != step.allowed || r.Remaining != step.remaining || r.RetryAfter != step.retry {
			t.Errorf("step %d %+v: %+v", i, step, r)
		}
	}
	if r := s.ask(31_200_000, "b", blocker, 1); !r.Allowed {
		t.Errorf("another subject: %+v", r)
	}
	if r := s.ask(31_200_000, "a", limit.Spec{Algorithm: limit.FixedWindow, Limit: 9, Window: time.Second},
		1); !r.Allowed {
		t.Errorf("under a limit that does not block: %+v", r)
	}
}

// testBlock checks, for any limit, that a denial that waiting helps holds for the block, without a gap and no longer
// than BlockMax, and that no block begins without such a denial. A limit beside it that was not denied itself is not
// blocked.
func testBlock(t *testing.T, f Fixture) {
	check(t, 1, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now, last := store{f, rt}, newClock(rt), limit.Result{}
		var until, length int64
		spec := drawSpec(rt)
		spec.Reserve = 0
		spec.Block = time.Duration(rapid.Int64Range(1, 2*micros(spec.Window)).Draw(rt, "block")) * time.Microsecond
		spec.BlockMax = spec.Block * 4
		if spec.Validate() != nil {
			return
		}
		for range steps {
			at := now.step(rt, spec, last)
			cost := drawCost(rt, spec, last)
			_, results := s.take(at, charge("a", spec, cost), charge("beside", spec, 0))
			last = results[0]
			wait, blocked := micros(last.RetryAfter), at < until
			if !blocked && wait > 0 {
				if at < until+length {
					length = min(2*length, micros(spec.BlockMax))
				} else {
					length = micros(spec.Block)
				}
				until = at + length
			}
			switch {
			case wait < 0: // never, blocked or not
			case blocked && cost > 0 && last.Allowed, wait > 0 && at+wait < until, at < until && last.Remaining > 0:
				rt.Fatalf("%+v: blocked for %d until %d: cost %d at %d: %+v", spec, length, until, cost, at, last)
			}
			if results[1].Remaining != results[1].Limit {
				rt.Fatalf("%+v: at %d: beside: %+v", spec, at, results[1])
			}
		}
	})
}

// testFirstSeen checks that a bucket with a deficit fills from its first call on, denied or not, and then grants as
// much as a bucket that had just been used.
func testFirstSeen(t *testing.T, f Fixture) {
	check(t, 2, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now, last := store{f, rt}, newClock(rt), limit.Result{}
		spec := limit.Spec{
			Algorithm: limit.TokenBucket, Limit: rapid.Int64Range(1, 50).Draw(rt, "limit"),
			Window: time.Duration(rapid.Int64Range(1, 100_000).Draw(rt, "us")) * time.Microsecond,
			Burst:  rapid.Int64Range(1, 20).Draw(rt, "burst"),
		}
		full := spec
		spec.InitialDeficit = rapid.Int64Range(0, spec.Burst).Draw(rt, "lack")
		if peek := s.ask(now.now, "new", spec, 0); peek.Remaining != spec.Burst-spec.InitialDeficit {
			rt.Fatalf("%+v: at first sight: %+v", spec, peek)
		}
		s.ask(now.now, "used", full, spec.InitialDeficit)
		for range steps {
			cost := 1 + drawCost(rt, spec, last)
			one, other := s.ask(now.now, "new", spec, cost), s.ask(now.now, "used", full, cost)
			if one != other {
				rt.Fatalf("%+v: cost %d at %d: %+v\nlike one used before: %+v", spec, cost, now.now, one, other)
			}
			last = one
			now.step(rt, spec, last)
		}
	})
}

// testAtMost checks that TakeUpTo charges the number that it returns, that no more fits afterwards than it reports, and
// that callers at the same time share exactly the remaining tokens (T4, U10).
func testAtMost(t *testing.T, f Fixture) {
	check(t, 3, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now, last := store{f, rt}, newClock(rt), limit.Result{}
		spec := drawAdditive(rt)
		for range steps {
			at := now.step(rt, spec, last)
			before := s.ask(at, "a", spec, 0)
			want := 1 + drawCost(rt, spec, last)
			n, r, err := limit.TakeUpTo(context.Background(), f.Store, time.UnixMicro(at), charge("a", spec, want))
			after := s.ask(at, "a", spec, 0)
			if err != nil || n != min(want, before.Remaining) || after.Remaining != before.Remaining-n ||
				(n == 0) != !r.Allowed {
				rt.Fatalf("%+v: at most %d at %d: %d %+v, %v\nbefore %+v\nafter %+v", spec, want, at, n, r, err, before,
					after)
			}
			last = r
		}
	})
	f.Reset()
	spec := limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Hour, Burst: 1000}
	at := store{f, t}
	at.ask(1_000_000_000, "b", spec, 0) // sets the clock
	var got atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 50 {
				n, _, err := limit.TakeUpTo(context.Background(), f.Store, time.UnixMicro(1_000_000_000),
					charge("b", spec, 7))
				if err != nil {
					t.Error(err)
				}
				got.Add(n)
			}
		})
	}
	callers.Wait()
	if got.Load() != spec.Burst {
		t.Errorf("8 callers took %d of %d", got.Load(), spec.Burst)
	}
}
