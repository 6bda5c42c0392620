package redislimits

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// Windows that are shared by sums decide as limit.Memory does while no other process allows requests, for any names of
// subjects and any cost. The sums of all allowed requests are recorded meanwhile. This also holds if the caller's clock
// jumps, until an exchange reads the time.
func TestWindows_MatchMemoryStoreForAnySubject(t *testing.T) {
	t.Parallel()
	server, ctx := redistest.Start(t), context.Background()
	subjects, trial := limittest.AdversarialSubjects(), 0
	rapid.Check(t, func(rt *rapid.T) {
		trial++
		c := openWith(t, redisclient.Config{Addrs: []string{server.Addr()}, Namespace: fmt.Sprint("trial", trial),
			Timeout: time.Minute})
		w, m := patient(c), limit.NewMemory(limit.MemoryConfig{})
		specs := map[limit.Subject]limit.Spec{}
		for _, s := range subjects {
			specs[s] = limit.Spec{
				Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow}).
					Draw(rt, "algorithm"),
				Limit: rapid.Int64Range(0, 20).Draw(rt, "limit"), Window: 30 * 24 * time.Hour,
			}
		}
		now, jumps := time.Now(), rapid.Bool().Draw(rt, "jumps")
		for range 50 {
			if jumps {
				now = rapid.SampledFrom([]time.Time{now, now, now, now.Add(time.Hour), now.Add(-time.Hour),
					now.Add(40 * 24 * time.Hour), {}, time.Unix(-1, 0), time.Unix(1<<40, 0),
					time.Unix(math.MaxInt64/4, 0)}).Draw(rt, "now")
			}
			s := rapid.SampledFrom(subjects[:8]).Draw(rt, "subject")
			if rapid.Bool().Draw(rt, "other") {
				s = rapid.SampledFrom(subjects).Draw(rt, "another")
			}
			charges := []limit.Charge{{Subject: s, Spec: specs[s],
				Cost: rapid.SampledFrom([]int64{0, 1, 1, 2, 20, 21, 1 << 53, math.MaxInt64, -1, math.MinInt64}).
					Draw(rt, "cost")}}
			got, want := make([]limit.Result, 1), make([]limit.Result, 1)
			at := time.UnixMicro(w.shards[0].redisTime(now))
			ok, err := w.Take(ctx, now, charges, got)
			wantOK, wantErr := m.Take(ctx, at, charges, want)
			if errors.Is(err, limit.ErrNegativeCost) != (charges[0].Cost < 0) || (err == nil) != (wantErr == nil) ||
				err == nil && (ok != wantOK || got[0] != want[0]) {
				rt.Fatalf("at %v: %.200v:\n%v %+v %v\n%v %+v %v", now, fmt.Sprintf("%+v", charges), ok, got, err,
					wantOK, want, wantErr)
			}
			if !jumps && rapid.IntRange(0, 5).Draw(rt, "exchange") == 0 {
				w.exchange(ctx)
			}
		}
		if st := w.Stats(); st.Errors > 0 {
			rt.Fatalf("%+v", st)
		}
	})
}

// Specs that no store can keep are errors in all stores, and charge nothing.
func TestStores_RejectBadSpecs(t *testing.T) {
	t.Parallel()
	one := open(t, redistest.Start(t).Addr())
	stores := map[string]limit.Store{
		"memory": limit.NewMemory(limit.MemoryConfig{}), "limiter": one, "windows": one.Windows(),
	}
	if redistest.RequireAll() {
		stores["limiter on a cluster"] = open(t, redistest.StartCluster(t).Addrs()...)
	}
	good := limit.Spec{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Hour}
	for name, store := range stores {
		for _, bad := range []limit.Spec{
			{}, {Algorithm: "leaking", Limit: 1, Window: time.Second},
			{Algorithm: limit.FixedWindow, Limit: 1, Window: 0},
			{Algorithm: limit.FixedWindow, Limit: 1, Window: -time.Second},
			{Algorithm: limit.SlidingWindow, Limit: -1, Window: time.Second},
			{Algorithm: limit.FixedWindow, Limit: 1 << 53, Window: time.Second},
			{Algorithm: limit.TokenBucket, Limit: math.MaxInt64, Window: time.Second, Burst: 1},
			{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: -1},
			{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 1, Wait: -1},
			{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 1, Wait: math.MaxInt64},
			{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 1, InitialDeficit: 2},
			{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Second, Block: -time.Second},
			{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Second, Block: time.Hour, BlockMax: time.Second},
			{Algorithm: limit.FixedWindow, Limit: 1, Window: math.MaxInt64},
			{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Nanosecond},
		} {
			charges := []limit.Charge{{Subject: limit.Subject{Space: "hot", Name: "a"}, Spec: good, Cost: 1},
				{Subject: limit.Subject{Space: "hot", Name: "b"}, Spec: bad, Cost: 1}}
			if _, err := store.Take(context.Background(), time.Now(), charges, make([]limit.Result, 2)); err == nil {
				t.Errorf("%s takes %+v", name, bad)
			}
		}
		results := make([]limit.Result, 1)
		if _, err := store.Take(context.Background(), time.Now(),
			[]limit.Charge{{Subject: limit.Subject{Space: "hot", Name: "a"}, Spec: good}}, results); err != nil ||
			results[0].Remaining != 5 {
			t.Errorf("%s: %+v, %v: what was rejected is charged", name, results, err)
		}
	}
}
