package redislimits

import (
	"context"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// Processes that exchange before each decision decide as a single process does, also when windows roll over, and forget
// sums that no longer count. The test sets the clocks, because real ones would differ from the clock of the single
// process by a part of a round trip.
func TestWindowsRollOver(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	all, clock, ctx := processes(t, 2, redistest.Start(t).Addr()), newClock(now), context.Background()
	skew := []time.Duration{2 * time.Minute, -time.Hour}
	for i, w := range all {
		w.store.rdb.AddHook(clock)
		w.store.now = func() time.Time { return now.Add(skew[i]) }
	}
	exact := limit.NewMemory(limit.MemoryConfig{})
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
		c, peek := windowCharge(visitor(1), algorithm, 5, 300*time.Millisecond, 1),
			windowCharge(visitor(1), algorithm, 5, 300*time.Millisecond, 0)
		for step := range 200 {
			now = now.Add(time.Duration(1+step*37%40) * time.Millisecond) // 15 in a window, and 1 in 40 of 1 ms
			clock.Set(now)
			for range 2 { // the first reads in the next round the sum of the last one
				for _, w := range all {
					w.ask(t, w.store.now(), peek)
					w.exchange(ctx)
				}
			}
			w, want := all[step%len(all)], make([]limit.Result, 1)
			got := w.ask(t, w.store.now(), c)
			if _, err := exact.Take(ctx, now, []limit.Charge{c}, want); err != nil {
				t.Fatal(err)
			}
			if got != want[0] {
				t.Errorf("%s, step %d: %+v, one process %+v", algorithm, step, got, want[0])
			}
		}
	}
}

// When a window ends, by a clock that the test sets, the requests that were allowed before are written, with their
// refunds, and count in the next window for the part that it still covers.
func TestWindowsRollOverWithTheirSums(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now := start.Add(9 * time.Second)
	all := processes(t, 2, redistest.Start(t).Addr())
	one, other, clock := all[0], all[1], newClock(now)
	for _, w := range all {
		w.store.rdb.AddHook(clock)
		w.store.now = func() time.Time { return now }
	}
	c, peek := windowCharge(visitor(1), limit.SlidingWindow, 20, 10*time.Second, 8),
		windowCharge(visitor(1), limit.SlidingWindow, 20, 10*time.Second, 0)
	// knows checks the remaining amount that each process knows at a second, once both have exchanged.
	knows := func(second int, want int64) {
		t.Helper()
		now = start.Add(time.Duration(second) * time.Second)
		clock.Set(now)
		for range 2 { // the first reads in the next round the sum of the second one
			for _, w := range all {
				w.ask(t, now, peek)
				w.exchange(context.Background())
			}
		}
		for i, w := range all {
			if left := w.ask(t, now, peek).Remaining; left != want {
				t.Errorf("second %d: process %d knows of %d left, want %d", second, i, left, want)
			}
		}
	}
	knows(9, 20)
	charged := now
	one.ask(t, charged, c)
	knows(9, 12)
	c.Cost = 2
	other.ask(t, charged, c) // written in the window after
	knows(11, 11)            // 10 in the window before, of which nine tenths count
	c.Cost = 8
	one.RefundAt(charged, []limit.Charge{c})
	knows(12, 18) // 2, of which eight tenths count, rounded up
	knows(15, 19)
	knows(20, 20)
}

// A process that is not asked for a while still has its sum of the window before.
func TestWindowsKeepTheSumOfTheWindowBefore(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now := start.Add(9 * time.Second)
	all := processes(t, 2, redistest.Start(t).Addr())
	one, other, clock := all[0], all[1], newClock(now)
	for _, w := range all {
		w.store.rdb.AddHook(clock)
		w.store.now = func() time.Time { return now }
		w.exchange(context.Background())
	}
	c, peek := windowCharge(visitor(1), limit.SlidingWindow, 10, 10*time.Second, 8),
		windowCharge(visitor(1), limit.SlidingWindow, 10, 10*time.Second, 0)
	one.ask(t, now, c)
	for _, second := range []int{9, 11, 12} {
		now = start.Add(time.Duration(second) * time.Second)
		clock.Set(now)
		if second == 12 {
			one.ask(t, now, peek)
		}
		one.exchange(context.Background())
	}
	for range 2 {
		other.ask(t, now, peek)
		other.exchange(context.Background())
	}
	if left := other.ask(t, now, peek).Remaining; left != 3 { // 8, of which eight tenths count
		t.Errorf("%d left of 10, want 3", left)
	}
}
