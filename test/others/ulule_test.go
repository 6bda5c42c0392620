package others

import (
	"context"
	"testing"
	"time"

	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/tests"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/redislimit"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// ululeStore implements the store of ulule/limiter with a store of ours. That library counts denied calls as well, and
// tells by their number whether the limit was exceeded; ours charges nothing for them. So the window here has room for
// one call more than the limit, and a caller for whom nothing remains has exceeded it.
type ululeStore struct {
	take  func(ctx context.Context, c limit.Charge) (limit.Result, error)
	reset func(ctx context.Context, s limit.Subject) error
}

func (u ululeStore) count(ctx context.Context, key string, n int64, rate ulule.Rate) (ulule.Context, error) {
	r, err := u.take(ctx, limit.Charge{
		Subject: limit.Subject{Space: "key", Name: key},
		Spec:    limit.Spec{Algorithm: limit.AnchoredWindow, Limit: rate.Limit + 1, Window: rate.Period},
		Cost:    n,
	})
	return ulule.Context{
		Limit: rate.Limit, Remaining: max(0, r.Remaining-1), Reached: r.Remaining == 0,
		Reset: time.Now().Add(r.ResetAfter).Unix(),
	}, err
}

func (u ululeStore) Get(ctx context.Context, key string, rate ulule.Rate) (ulule.Context, error) {
	return u.count(ctx, key, 1, rate)
}

func (u ululeStore) Peek(ctx context.Context, key string, rate ulule.Rate) (ulule.Context, error) {
	return u.count(ctx, key, 0, rate)
}

func (u ululeStore) Increment(ctx context.Context, key string, n int64, rate ulule.Rate) (ulule.Context, error) {
	return u.count(ctx, key, n, rate)
}

func (u ululeStore) Reset(ctx context.Context, key string, rate ulule.Rate) (ulule.Context, error) {
	if err := u.reset(ctx, limit.Subject{Space: "key", Name: key}); err != nil {
		return ulule.Context{}, err
	}
	return u.count(ctx, key, 0, rate)
}

// memoryStore returns a store of one process.
func memoryStore() ululeStore {
	m := limit.NewMemory(limit.MemoryConfig{})
	return ululeStore{
		take: func(ctx context.Context, c limit.Charge) (limit.Result, error) {
			var r [1]limit.Result
			_, err := m.Take(ctx, time.Now(), []limit.Charge{c}, r[:])
			return r[0], err
		},
		reset: func(_ context.Context, s limit.Subject) error {
			m.Reset(&s)
			return nil
		},
	}
}

// redisStore returns a store in a server of its own.
func redisStore(t *testing.T) ululeStore {
	limits := redislimit.New(redistest.Start(t).Client())
	return ululeStore{
		take: func(ctx context.Context, c limit.Charge) (limit.Result, error) {
			var r [1]limit.Result
			_, err := limits.Store().Take(ctx, time.Time{}, []limit.Charge{c}, r[:])
			return r[0], err
		},
		reset: func(ctx context.Context, s limit.Subject) error { return limits.Reset(ctx, s.Name) },
	}
}

// The stores keep what ulule/limiter expects of a store.
func TestStores_PassSuiteOfUlule(t *testing.T) {
	s := begin(t, "ulule/limiter", "github.com/ulule/limiter/v3")
	for name, open := range map[string]func(t *testing.T) ululeStore{
		"memory": func(*testing.T) ululeStore { return memoryStore() }, "redis": redisStore,
	} {
		s.add("TestStoreSequentialAccess "+name, func(t *testing.T) { tests.TestStoreSequentialAccess(t, open(t)) })
		s.add("TestStoreConcurrentAccess "+name, func(t *testing.T) { tests.TestStoreConcurrentAccess(t, open(t)) })
	}
}
