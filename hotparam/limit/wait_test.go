package limit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// one is a charge of one call.
func one(name string, spec limit.Spec) []limit.Charge {
	return []limit.Charge{{Subject: limit.Subject{Space: "wait", Name: name}, Spec: spec, Cost: 1}}
}

// Callers of a limit with a Wait proceed in the order in which they came, each when its token returns. A caller that
// comes while the queue is full follows when there is room.
func TestMemory_WaitsInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := limit.NewMemory(limit.MemoryConfig{})
		spec := limit.Spec{Algorithm: limit.TokenBucket, Limit: 2, Window: time.Second, Burst: 2,
			Wait: 1200 * time.Millisecond}
		began, proceeded := time.Now(), make([]time.Duration, 5)
		var callers sync.WaitGroup
		for i := range proceeded {
			callers.Go(func() {
				if err := store.Wait(t.Context(), one("a", spec)); err != nil {
					t.Error(err)
				}
				proceeded[i] = time.Since(began)
			})
			synctest.Wait()
		}
		callers.Wait()
		for i, want := range []time.Duration{0, 0, 500, 1000, 1500} {
			if proceeded[i] != want*time.Millisecond {
				t.Errorf("caller %d proceeded after %v, want %v", i, proceeded[i], want*time.Millisecond)
			}
		}
	})
}

// Without a Wait of its own a limit makes callers wait until it allows the call, for every algorithm.
func TestMemory_WaitsForEveryAlgorithm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec limit.Spec
		want time.Duration
	}{
		{limit.PerSecond(2), 500 * time.Millisecond},
		{limit.Spec{Algorithm: limit.LeakyBucket, Limit: 2, Window: time.Second, Burst: 1}, time.Second},
		{limit.Spec{Algorithm: limit.FixedWindow, Limit: 2, Window: time.Minute}, time.Minute},
		{limit.Spec{Algorithm: limit.WarmingUp, Limit: 2, Window: time.Second, WarmUp: 4 * time.Second},
			2500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, began := limit.NewMemory(limit.MemoryConfig{}), time.Now() // at the edge of a day
			for range 3 {
				if err := store.Wait(t.Context(), one("a", c.spec)); err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%s: three calls took %v, want %v", c.spec.Algorithm, took, c.want)
			}
		})
	}
}

// A request proceeds when all of its limits allow it; a limit that denies leaves the others unchanged.
func TestMemory_WaitsForAllCharges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, began := limit.NewMemory(limit.MemoryConfig{}), time.Now()
		fast, slow := one("fast", limit.PerSecond(10)), one("slow", limit.PerMinute(1))
		both := append(fast, slow...)
		for range 2 {
			if err := store.Wait(t.Context(), both); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("two requests took %v", took)
		}
		fast[0].Cost = 9 // after the cost that was taken just now
		if ok, err := store.Take(t.Context(), time.Now(), fast, make([]limit.Result, 1)); !ok || err != nil {
			t.Errorf("beside: %v, %v", ok, err)
		}
	})
}

// A caller whose context ends has taken nothing: the next caller takes its turn.
func TestMemory_WaitReturnsTheCharge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := limit.NewMemory(limit.MemoryConfig{})
		spec := limit.Every(time.Hour, 1)
		spec.Wait = time.Hour
		remaining := func() int64 {
			peek, results := one("a", spec), make([]limit.Result, 1)
			peek[0].Cost = 0
			if _, err := store.Take(t.Context(), time.Now(), peek, results); err != nil {
				t.Error(err)
			}
			return results[0].Remaining
		}
		if err := store.Wait(t.Context(), one("a", spec)); err != nil || remaining() != 1 {
			t.Fatalf("the first call: %v, %d remain", err, remaining())
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if err := store.Wait(ctx, one("a", spec)); !errors.Is(err, context.Canceled) || remaining() != 1 {
			t.Errorf("canceled: %v, %d remain", err, remaining())
		}
		began := time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), 58*time.Minute)
		defer cancel()
		if err := store.Wait(ctx, one("a", spec)); !errors.Is(err, limit.ErrDeadline) || remaining() != 1 ||
			time.Since(began) != 0 {
			t.Errorf("too short: %v after %v, %d remain", err, time.Since(began), remaining())
		}
		ctx, cancel = context.WithTimeout(t.Context(), 59*time.Minute+time.Nanosecond)
		defer cancel()
		if err := store.Wait(ctx, one("a", spec)); err != nil || time.Since(began) != 59*time.Minute {
			t.Errorf("long enough: %v after %v", err, time.Since(began))
		}
	})
}

// A charge above the capacity fails at once, because waiting does not help.
func TestMemory_WaitFails(t *testing.T) {
	t.Parallel()
	store := limit.NewMemory(limit.MemoryConfig{})
	over, negative := one("a", limit.PerHour(1)), one("a", limit.PerHour(1))
	over[0].Cost, negative[0].Cost = 2, -1
	if err := store.Wait(t.Context(), over); !errors.Is(err, limit.ErrDeadline) {
		t.Errorf("a cost above the capacity: %v", err)
	}
	if err := store.Wait(t.Context(), negative); !errors.Is(err, limit.ErrNegativeCost) {
		t.Errorf("a negative cost: %v", err)
	}
}
