package redislimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/redislimit"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A Limiter has the same laws on a cluster as on one server.
func TestLimiter(t *testing.T) {
	t.Parallel()
	single := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr(), ContextTimeoutEnabled: true})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.StartCluster(t).Addrs(),
		ContextTimeoutEnabled: true})
	for kind, rdb := range map[string]redis.UniversalClient{"one server": single, "cluster": cluster} {
		t.Cleanup(func() { _ = rdb.Close() })
		for name, test := range map[string]func(t *testing.T, rdb redis.UniversalClient){
			"what is taken is gone":              whatIsTakenIsGone,
			"refund gives back what was taken":   refundGivesBack,
			"wait ends when it fits, or at once": waitEnds,
			"wait returns the charge":            waitReturnsTheCharge,
			"many callers share one limit":       manyCallers,
			"the caller's client stays as it is": clientStays,
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, rdb)
			})
		}
	}
}

// slow returns a limit whose tokens return so rarely that no token returns during a test.
func slow(n int64) limit.Spec { return limit.Every(24*time.Hour, n) }

func whatIsTakenIsGone(t *testing.T, rdb redis.UniversalClient) {
	l, ctx := redislimit.New(rdb), t.Context()
	for i, step := range []struct {
		do                     func() (redislimit.Result, error)
		allowed                bool
		taken, limit, remained int64
	}{
		{func() (redislimit.Result, error) { return l.Peek(ctx, "a", slow(10)) }, true, 0, 10, 10},
		{func() (redislimit.Result, error) { return l.Allow(ctx, "a", slow(10)) }, true, 1, 10, 9},
		{func() (redislimit.Result, error) { return l.AllowN(ctx, "a", slow(10), 5) }, true, 5, 10, 4},
		{func() (redislimit.Result, error) { return l.AllowN(ctx, "a", slow(10), 5) }, false, 0, 10, 4},
		{func() (redislimit.Result, error) { return l.AllowUpTo(ctx, "a", slow(10), 7) }, true, 4, 10, 0},
		{func() (redislimit.Result, error) { return l.AllowUpTo(ctx, "a", slow(10), 7) }, false, 0, 10, 0},
		{func() (redislimit.Result, error) { return l.Allow(ctx, "b", slow(10)) }, true, 1, 10, 9},
	} {
		r, err := step.do()
		if err != nil || r.Allowed != step.allowed || r.Taken != step.taken || r.Limit != step.limit ||
			r.Remaining != step.remained {
			t.Errorf("step %d: %+v, %v; want %v, taken %d, limit %d, remaining %d", i, r, err, step.allowed, step.taken,
				step.limit, step.remained)
		}
		if (r.RetryAfter > 0) == r.Allowed {
			t.Errorf("step %d: allowed %v, retry after %v", i, r.Allowed, r.RetryAfter)
		}
	}
	if err := l.Reset(ctx, "a"); err != nil {
		t.Error(err)
	}
	if r, err := l.Peek(ctx, "a", slow(10)); err != nil || r.Remaining != 10 {
		t.Errorf("after Reset: %+v, %v", r, err)
	}
}

func refundGivesBack(t *testing.T, rdb redis.UniversalClient) {
	l, ctx := redislimit.New(rdb), t.Context()
	r, err := l.AllowUpTo(ctx, "refunded", slow(10), 12)
	if err != nil || r.Taken != 10 {
		t.Fatalf("%+v, %v", r, err)
	}
	if back, err := l.Refund(ctx, r); !back || err != nil {
		t.Errorf("refund: %v, %v", back, err)
	}
	if now, err := l.Peek(ctx, "refunded", slow(10)); err != nil || now.Remaining != 10 {
		t.Errorf("after the refund: %+v, %v", now, err)
	}
	denied, err := l.AllowN(ctx, "refunded", slow(10), 11)
	if err != nil || denied.Allowed {
		t.Errorf("11 of 10: %+v, %v", denied, err)
	}
	if back, err := l.Refund(ctx, denied); back || err != nil {
		t.Errorf("the refund of nothing: %v, %v", back, err)
	}
}

func waitEnds(t *testing.T, rdb redis.UniversalClient) {
	l := redislimit.New(rdb)
	for _, spec := range []limit.Spec{
		limit.PerSecond(20),
		{Algorithm: limit.LeakyBucket, Limit: 20, Window: time.Second, Burst: 19},
		{Algorithm: limit.TokenBucket, Limit: 20, Window: time.Second, Burst: 20, Wait: time.Second},
		{Algorithm: limit.TokenBucket, Limit: 20, Window: time.Second, Burst: 20, Wait: 40 * time.Millisecond},
	} {
		key := string(spec.Algorithm) + spec.Wait.String()
		start := time.Now()
		for range 24 {
			if err := l.Wait(t.Context(), key, spec); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took < 150*time.Millisecond || took > 10*time.Second {
			t.Errorf("%s: 24 of 20 a second took %v", key, took)
		}
	}
	if _, err := l.AllowN(t.Context(), "waited for", slow(1), 1); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	if err := l.Wait(short, "waited for", slow(1)); !errors.Is(err, limit.ErrDeadline) ||
		time.Since(start) > 20*time.Second {
		t.Errorf("a wait of an hour: %v after %v", err, time.Since(start))
	}
}

// A caller whose context ends while it waits returns its charge.
func waitReturnsTheCharge(t *testing.T, rdb redis.UniversalClient) {
	l, queued := redislimit.New(rdb), slow(1)
	queued.Wait = 24 * time.Hour
	if r, err := l.Allow(t.Context(), "queued", queued); err != nil || r.Remaining != 1 {
		t.Fatalf("the first call: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.Wait(ctx, "queued", queued) }()
	remaining := func() int64 {
		r, err := l.Peek(t.Context(), "queued", queued)
		if err != nil {
			t.Fatal(err)
		}
		return r.Remaining
	}
	for remaining() > 0 { // until it has its turn
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	redistest.Eventually(t, "the refund", func() bool { return remaining() == 1 })
}

// Exactly the limit passes, for any number of simultaneous callers.
func manyCallers(t *testing.T, rdb redis.UniversalClient) {
	var passed atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		l := redislimit.New(rdb) // like a limiter of another process
		for range 8 {
			callers.Go(func() {
				for range 25 {
					r, err := l.Allow(t.Context(), "mail:anna", slow(300))
					if err != nil {
						t.Error(err)
					}
					passed.Add(r.Taken)
				}
			})
		}
	}
	callers.Wait()
	if passed.Load() != 300 {
		t.Errorf("%d passed, want 300 of 800", passed.Load())
	}
}

// The caller's client is unchanged: it has no hook of ours, and is open.
func clientStays(t *testing.T, rdb redis.UniversalClient) {
	if _, err := redislimit.New(rdb).Allow(t.Context(), "beside", slow(1)); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Set(t.Context(), "theirs", 1, time.Minute).Err(); err != nil {
		t.Error(err)
	}
	if n, err := rdb.Eval(t.Context(), "return 7", nil).Int(); n != 7 || err != nil {
		t.Errorf("a script of theirs: %d, %v", n, err)
	}
}

func TestErrorsNameTheKeyAndTheLimit(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	l := redislimit.New(rdb)
	if _, err := l.Allow(t.Context(), "a", slow(1)); err == nil {
		t.Error("no error without a server")
	}
	if _, err := l.Allow(t.Context(), "a", limit.PerSecond(-1)); err == nil {
		t.Error("a negative limit is taken")
	}
	if _, err := l.AllowN(t.Context(), "a", slow(1), -1); !errors.Is(err, limit.ErrNegativeCost) {
		t.Errorf("a negative cost: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a Ring is taken")
		}
	}()
	redislimit.New(redis.NewRing(&redis.RingOptions{}))
}
