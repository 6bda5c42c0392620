package redislimits

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// With any number of callers, never more run than the bound, and no call fails.
func TestInFlight_BoundsRunningCalls(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	f, err := c.InFlight("export", 5, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var running, most, failed, ran atomic.Int64
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			for j := range 10 {
				id := fmt.Sprint(i, "-", j)
				r, err := f.Acquire(context.Background(), id)
				if err != nil {
					failed.Add(1)
				}
				if !r.Allowed {
					continue
				}
				ran.Add(1)
				for n := running.Add(1); ; {
					if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
						break
					}
				}
				running.Add(-1)
				if ok, err := f.Release(context.Background(), id); err != nil || !ok {
					failed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if most.Load() > 5 || failed.Load() != 0 || ran.Load() < 5 {
		t.Errorf("%d at once, %d failed, %d ran", most.Load(), failed.Load(), ran.Load())
	}
	start := time.Now()
	clock := setClock(c.rdb, start)
	for i, id := range []string{"a", "b", "c"} { // leases a minute apart
		clock.Set(start.Add(time.Duration(i) * time.Minute))
		if r, err := f.Acquire(context.Background(), id); err != nil || !r.Allowed {
			t.Errorf("%+v, %v", r, err)
		}
	}
	lower, err := c.InFlight("export", 2, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := lower.Acquire(context.Background(), "d"); err != nil || r.Allowed || r.RetryAfter != 59*time.Minute {
		t.Errorf("3 of 2 run: %+v, %v", r, err)
	}
	if _, err := c.InFlight("k", -1, time.Second); err == nil {
		t.Error("a negative bound")
	}
}

// places are the places in Redis under one key, with the bounds of each call.
type places struct {
	t     *testing.T
	c     *Limiter
	clock *redistest.Clock
	key   string
}

func (p places) at(now time.Time, most int64, life time.Duration) *InFlight {
	p.clock.Set(now)
	f, err := p.c.InFlight(p.key, most, life)
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

func (p places) Acquire(now time.Time, most int64, life time.Duration, id string) limit.Result {
	r, err := p.at(now, most, life).Acquire(context.Background(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p places) Release(now time.Time, id string) bool {
	held, err := p.at(now, 1, time.Second).Release(context.Background(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return held
}

// The script keeps the laws that limit.InFlight keeps, number by number.
func TestInFlightLaws(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	clock, n := setClock(c.rdb, time.Time{}), 0
	limittest.RunInFlight(t, func() limittest.InFlightLimiter {
		n++
		return places{t, c, clock, fmt.Sprint("traces ", n)}
	})
}

// Leases that have ended are removed when a place is taken, so that the key does not grow.
func TestInFlightRemovesEndedLeases(t *testing.T) {
	t.Parallel()
	c, start := open(t, redistest.Start(t).Addr()), time.Now()
	clock := setClock(c.rdb, start)
	f, err := c.InFlight("export", 1000, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		clock.Set(start.Add(time.Duration(i) * time.Minute))
		if r, err := f.Acquire(t.Context(), fmt.Sprint(i)); err != nil || !r.Allowed {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	for _, key := range c.rdb.Keys(t.Context(), "*").Val() {
		if n := c.rdb.ZCard(t.Context(), key).Val(); n != 2 { // the last lease, and its time
			t.Errorf("%s has %d members", key, n)
		}
	}
}

// The key lives as long as its last lease, also where a later one is shorter.
func TestInFlight_KeyLivesAsLongAsLastLease(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	for _, call := range []struct{ lease, lives time.Duration }{
		{time.Hour, time.Hour}, {10 * time.Hour, 10 * time.Hour}, {time.Minute, 10 * time.Hour},
	} {
		f, err := c.InFlight("export", 1000, call.lease)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Acquire(t.Context(), call.lease.String()); err != nil {
			t.Fatal(err)
		}
		life, err := c.rdb.PTTL(t.Context(), f.key).Result()
		if err != nil || life > call.lives+2*time.Millisecond || life < call.lives-3*time.Second {
			t.Errorf("after a lease of %v the key lives %v; %v", call.lease, life, err)
		}
	}
}
