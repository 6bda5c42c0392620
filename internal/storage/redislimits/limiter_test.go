package redislimits

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// openLimiter returns a limiter on a server of the test's own.
func openLimiter(t testing.TB, addr string) *shardLimiter {
	t.Helper()
	c := openWith(t, redisclient.Config{Addrs: []string{addr}, Namespace: "test", PoolSize: 64,
		Timeout: 10 * time.Second})
	return c.shards[0]
}

// Take is Limiter.Take without shards.
func (l *shardLimiter) Take(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	admitted, _, err := l.TakeAt(ctx, now, charges, results)
	return admitted, err
}

// RefundAt is Limiter.RefundAt without shards.
func (l *shardLimiter) RefundAt(ctx context.Context, at time.Time, charges []limit.Charge,
	results []limit.Result) error {
	if err := limit.CheckCharges(charges, results); err != nil || len(charges) == 0 {
		return err
	}
	refunds := make([]refundItem, len(charges))
	for i := range charges {
		refunds[i] = refundItem{charge: charges[i], when: at.UnixMicro()}
	}
	return l.refundAll(ctx, refunds, results)
}

// onServer returns a limiter on a real server that decides by a clock that the test sets.
func onServer(t testing.TB, s *redistest.Server) (limittest.Fixture, *shardLimiter) {
	l := openLimiter(t, s.Addr())
	clock := setClock(l.rdb, time.Time{})
	return limittest.Fixture{
		Store:    l,
		SetClock: clock.Set,
		Reset: func() {
			if err := l.rdb.FlushAll(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
		},
		Dump: func() string { return dump(t, l) },
		Refund: func(now, at time.Time, charges []limit.Charge) {
			clock.Set(now)
			if err := l.RefundAt(context.Background(), at, charges, make([]limit.Result, len(charges))); err != nil {
				t.Fatal(err)
			}
		},
	}, l
}

func dump(t testing.TB, l *shardLimiter) string {
	var text strings.Builder
	for _, key := range l.rdb.Keys(context.Background(), "*").Val() {
		v, err := l.rdb.Get(context.Background(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(key + "=" + v + "\n")
	}
	return text.String()
}

// The laws hold for both scripts that decide, in miniredis, whose clock is set, and on a
// real server.
func TestLimiterLaws(t *testing.T) {
	t.Parallel()
	for way, store := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			limittest.Run(t, func(t testing.TB) limittest.Fixture {
				f, l := onServer(t, redistest.Start(t))
				f.Store = store(l)
				return f
			})
		})
	}
}

// The Go algorithms are the oracle of the script.
func TestLimiterMatchesMemoryStore(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &struct{ *limit.Memory }{limit.NewMemory(limit.MemoryConfig{})}
			memory := limittest.Fixture{
				Store: m, Reset: func() { m.Memory = limit.NewMemory(limit.MemoryConfig{}) },
				Refund: func(_, at time.Time, charges []limit.Charge) { m.RefundAt(at, charges) },
			}
			store, l := onServer(t, redistest.Start(t))
			store.Store = way(l)
			limittest.RunEquivalence(t, memory, store)
		})
	}
}

func (c *counters) read() (all Stats) {
	c.addTo(&all)
	return all
}
