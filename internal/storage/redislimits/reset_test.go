package redislimits

import (
	"context"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// A subject that was reset is like one that was never seen: in Redis, and in the sums of windows, also those of a
// process that wrote its sum a moment later.
func TestReset_DeletesStateAndSums(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("bucket", func(t *testing.T) { t.Parallel(); resetBucket(t, addrs) })
			t.Run("windows", func(t *testing.T) { t.Parallel(); resetWindows(t, addrs) })
		})
	}
}

func resetBucket(t *testing.T, addrs []string) {
	l, ctx := open(t, addrs...), context.Background()
	c := hotCharge(100, 100)
	c.Subject.Name, c.Spec.Block = "reset", time.Hour
	take := func() limit.Result {
		t.Helper()
		results := make([]limit.Result, 1)
		if _, err := l.Take(ctx, now(), []limit.Charge{c}, results); err != nil {
			t.Fatal(err)
		}
		return results[0]
	}
	for range 3 {
		if !take().Allowed || take().Allowed {
			t.Fatal("100 of 100 pass once, and then it is blocked")
		}
		if err := l.ResetAll(ctx, []limit.Charge{c}); err != nil {
			t.Fatal(err)
		}
	}
}

func resetWindows(t *testing.T, addrs []string) {
	all, ctx, at := processes(t, 2, addrs...), context.Background(), time.Now()
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
		c := windowCharge(visitor(9), algorithm, 10, 300*24*time.Hour, 5)
		for _, w := range all {
			w.exchange(ctx)
			if r := w.ask(t, at, c); !r.Allowed {
				t.Fatalf("%+v", r)
			}
		}
		exchangeAll(t, all, at, c)
		if all[0].ask(t, at, c).Allowed || all[1].ask(t, at, c).Allowed {
			t.Fatal("10 are used up")
		}
		if err := all[0].store.ResetAll(ctx, []limit.Charge{c}); err != nil {
			t.Fatal(err)
		}
		all[0].Reset(&c.Subject)
		sp, _ := all[0].firstStripe([]limit.Charge{c})
		if r := findRecord(sp.records[subjectIDOf(&c.Subject)], c.Subject.Space); r.own+r.ownPrev+r.others+
			r.othersPrev > 0 {
			t.Errorf("%s: sums after a reset: %+v", algorithm, r)
		}
		all[1].exchange(ctx) // it does not know of the reset, and writes its old sum
		all[1].Reset(&c.Subject)
		exchangeAll(t, all, at, c)
		c.Cost = 0
		for i, w := range all {
			if r := w.ask(t, at, c); r.Remaining != 10 {
				t.Errorf("%s, process %d: %d left of 10", algorithm, i, r.Remaining)
			}
		}
	}
}

// exchangeAll has all processes write and read the sums of a window.
func exchangeAll(t *testing.T, all []*Windows, at time.Time, c limit.Charge) {
	t.Helper()
	c.Cost = 0
	for range 2 {
		for _, w := range all {
			w.ask(t, at, c)
			w.exchange(t.Context())
		}
	}
}
