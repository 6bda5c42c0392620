package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

// The script and limit.InFlight answer the same, a denied call writes nothing, and
// the key goes with its last lease.
func TestInFlightIsMemory(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c, ctx := steady(t, m.Addr()), context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		m.FlushAll()
		most, life := rapid.Int64Range(0, 5).Draw(rt, "most"), time.Duration(rapid.Int64Range(1, 5000).Draw(rt, "us"))*time.Microsecond
		memory, err := limit.NewInFlight(most, life)
		if err != nil {
			rt.Fatal(err)
		}
		shared, err := c.InFlight("k", most, life)
		if err != nil {
			rt.Fatal(err)
		}
		now := int64(1_700_000_000_000_000)
		for range 50 {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, life.Microseconds()*3/2)).Draw(rt, "ahead")
			m.SetTime(time.UnixMicro(now))
			id, before := fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "id")), m.Dump()
			if rapid.IntRange(0, 3).Draw(rt, "release") == 0 {
				want := memory.Release(time.UnixMicro(now), id)
				if got, err := shared.Release(ctx, id); err != nil || got != want {
					rt.Fatalf("release %s at %d: %v, want %v; %v", id, now, got, want, err)
				}
				continue
			}
			want := memory.Acquire(time.UnixMicro(now), id)
			got, err := shared.Acquire(ctx, id)
			if err != nil || got != want {
				rt.Fatalf("acquire %s at %d: %+v, want %+v; %v", id, now, got, want, err)
			}
			if !got.Allowed && m.Dump() != before {
				rt.Fatalf("a denied call wrote\n%s", m.Dump())
			}
			if ttl := m.TTL(shared.key); got.Allowed && (ttl < got.ResetAfter || ttl > got.ResetAfter+3*time.Millisecond) {
				rt.Fatalf("%+v: kept for %v", got, ttl)
			}
		}
	})
}

// Never more run than may, and none fails, whoever asks.
func TestInFlightOnServer(t *testing.T) {
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
	clock := setClock(c, start)
	for i, id := range []string{"a", "b", "c"} { // leases a minute apart
		clock.set(start.Add(time.Duration(i) * time.Minute))
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
