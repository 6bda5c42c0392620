package miniredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
)

// client returns limits with a time-out that a busy machine does not reach.
func client(t testing.TB, m *miniredis.Miniredis) *redislimits.Limiter {
	t.Helper()
	return redislimits.New(connect(t, m))
}

func connect(t testing.TB, m *miniredis.Miniredis) *redisclient.Client {
	t.Helper()
	c, err := redisclient.Open(redisclient.Config{Addrs: []string{m.Addr()}, Namespace: "test", PoolSize: 64,
		Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// fixture decides by TIME, which the test sets, and expires states only when the test calls Expire.
func fixture(t testing.TB) limittest.Fixture {
	m := miniredis.RunT(t)
	var clock time.Time
	return limittest.Fixture{
		Store:    client(t, m),
		Reset:    func() { m.FlushAll(); clock = time.Time{} },
		SetClock: m.SetTime,
		Expire: func(now time.Time) {
			if d := now.Sub(clock); !clock.IsZero() && d > 0 {
				m.FastForward(d)
			}
			clock = now
		},
		Dump: m.Dump,
		TTLs: func() []time.Duration {
			var all []time.Duration
			for _, key := range m.Keys() {
				all = append(all, m.TTL(key))
			}
			return all
		},
	}
}

// batched has every decision wait for a batch, because its context can be cancelled.
type batched struct{ limit.Store }

func (b batched) Take(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return b.Store.Take(ctx, now, charges, results)
}

// The laws hold for decisions that are sent alone and in batches.
func TestLimiter_ObeysTheLaws(t *testing.T) {
	t.Parallel()
	for way, store := range map[string]func(limit.Store) limit.Store{
		"alone":    func(s limit.Store) limit.Store { return s },
		"together": func(s limit.Store) limit.Store { return batched{s} },
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			limittest.Run(t, func(t testing.TB) limittest.Fixture {
				f := fixture(t)
				f.Store = store(f.Store)
				return f
			})
		})
	}
}
