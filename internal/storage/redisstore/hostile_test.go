package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

// Windows that are shared by sums decide as limit.Memory does while nobody else
// admits anything, whatever subjects are called and however much is asked for; what
// all have admitted is added up meanwhile. So they do wherever the caller's clock
// jumps, until an exchange says what the time is.
func TestWindowsHostile(t *testing.T) {
	t.Parallel()
	server, ctx := redistest.Start(t), context.Background()
	subjects, trial := limittest.Hostile(), 0
	rapid.Check(t, func(rt *rapid.T) {
		trial++
		c := openWith(t, Config{Addrs: []string{server.Addr()}, Namespace: fmt.Sprint("trial", trial), Timeout: time.Minute})
		w, m := c.Windows(WindowsConfig{}), limit.NewMemory(limit.MemoryConfig{})
		specs := map[limit.Subject]limit.Spec{}
		for _, s := range subjects {
			specs[s] = limit.Spec{
				Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow}).Draw(rt, "algorithm"),
				Limit:     rapid.Int64Range(0, 20).Draw(rt, "limit"), Window: 30 * 24 * time.Hour,
			}
		}
		now, jumps := time.Now(), rapid.Bool().Draw(rt, "jumps")
		for range 50 {
			if jumps {
				now = rapid.SampledFrom([]time.Time{now, now, now, now.Add(time.Hour), now.Add(-time.Hour), now.Add(40 * 24 * time.Hour), {}, time.Unix(-1, 0), time.Unix(1<<40, 0), time.Unix(math.MaxInt64/4, 0)}).Draw(rt, "now")
			}
			s := rapid.SampledFrom(subjects[:8]).Draw(rt, "subject")
			if rapid.Bool().Draw(rt, "other") {
				s = rapid.SampledFrom(subjects).Draw(rt, "another")
			}
			charges := []limit.Charge{{Subject: s, Spec: specs[s], Cost: rapid.SampledFrom([]int64{0, 1, 1, 2, 20, 21, 1 << 53, math.MaxInt64, -1, math.MinInt64}).Draw(rt, "cost")}}
			got, want := make([]limit.Result, 1), make([]limit.Result, 1)
			at := time.UnixMicro(w.shards[0].at(now))
			ok, err := w.Take(ctx, now, charges, got)
			wantOK, wantErr := m.Take(ctx, at, charges, want)
			if errors.Is(err, limit.ErrCost) != (charges[0].Cost < 0) || (err == nil) != (wantErr == nil) || err == nil && (ok != wantOK || got[0] != want[0]) {
				rt.Fatalf("at %v: %.200v:\n%v %+v %v\n%v %+v %v", now, fmt.Sprintf("%+v", charges), ok, got, err, wantOK, want, wantErr)
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

// Specs that no store can keep are errors of all of them, and charge nothing.
func TestBadSpecsAreErrors(t *testing.T) {
	t.Parallel()
	s, cluster := redistest.Start(t), redistest.StartCluster(t)
	one, many := open(t, s.Addr()), open(t, cluster.Addrs()...)
	stores := map[string]limit.Store{
		"memory": limit.NewMemory(limit.MemoryConfig{}), "limiter": one.Limiter(), "spread": many.Limiter(), "windows": one.Windows(WindowsConfig{}),
	}
	good := limit.Spec{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Hour}
	for name, store := range stores {
		for _, bad := range []limit.Spec{
			{}, {Algorithm: "leaking", Limit: 1, Window: time.Second},
			{Algorithm: limit.FixedWindow, Limit: 1, Window: 0}, {Algorithm: limit.FixedWindow, Limit: 1, Window: -time.Second},
			{Algorithm: limit.SlidingWindow, Limit: -1, Window: time.Second}, {Algorithm: limit.FixedWindow, Limit: 1 << 53, Window: time.Second},
			{Algorithm: limit.TokenBucket, Limit: math.MaxInt64, Window: time.Second, Burst: 1},
			{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: -1},
			{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 1, Wait: -1},
			{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 1, Wait: math.MaxInt64},
			{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 1, Lack: 2},
			{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Second, Block: -time.Second},
			{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Second, Block: time.Hour, BlockMax: time.Second},
			{Algorithm: limit.FixedWindow, Limit: 1, Window: math.MaxInt64}, {Algorithm: limit.FixedWindow, Limit: 1, Window: time.Nanosecond},
		} {
			charges := []limit.Charge{{Subject: limit.Subject{Space: "hot", Name: "a"}, Spec: good, Cost: 1}, {Subject: limit.Subject{Space: "hot", Name: "b"}, Spec: bad, Cost: 1}}
			if _, err := store.Take(context.Background(), time.Now(), charges, make([]limit.Result, 2)); err == nil {
				t.Errorf("%s takes %+v", name, bad)
			}
		}
		results := make([]limit.Result, 1)
		if _, err := store.Take(context.Background(), time.Now(), []limit.Charge{{Subject: limit.Subject{Space: "hot", Name: "a"}, Spec: good}}, results); err != nil || results[0].Remaining != 5 {
			t.Errorf("%s: %+v, %v: what was refused is charged", name, results, err)
		}
	}
}

// hostileTexts are names of any length and of any bytes.
func hostileTexts() []string {
	var all []string
	for _, s := range limittest.Hostile() {
		if s.Space == "test" && s.Client.IsZero() {
			all = append(all, s.Name)
		}
	}
	return all
}

// Leases under any key and any id are apart from each other; a clock that jumps
// back prolongs no lease and frees none.
func TestInFlightHostile(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c, ctx, texts := open(t, m.Addr()), context.Background(), hostileTexts()
	now := time.Now()
	m.SetTime(now)
	for _, key := range texts {
		f, err := c.InFlight(key, int64(len(texts)), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		memory, err := limit.NewInFlight(int64(len(texts)), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range texts {
			got, err := f.Acquire(ctx, id)
			if want := memory.Acquire(now, id); err != nil || got != want || got.Remaining != int64(len(texts)-1-i) {
				t.Fatalf("key %.20q: id %.20q: %+v, want %+v; %v", key, id, got, want, err)
			}
		}
		for _, id := range texts {
			if ok, err := f.Release(ctx, id); err != nil || !ok {
				t.Fatalf("key %.20q: id %.20q had no place; %v", key, id, err)
			}
		}
	}
	for _, bad := range []struct {
		most int64
		life time.Duration
	}{{-1, time.Second}, {1 << 53, time.Second}, {1, 0}, {1, -time.Second}, {1, time.Nanosecond}, {1, math.MaxInt64}} {
		if _, err := c.InFlight("k", bad.most, bad.life); err == nil {
			t.Errorf("%+v: no error", bad)
		}
		if _, err := limit.NewInFlight(bad.most, bad.life); err == nil {
			t.Errorf("%+v: no error in process", bad)
		}
	}
}

// Throttle keeps keys of any bytes apart, and what it cannot keep exactly is an
// error that writes nothing.
func TestThrottleHostile(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c, ctx := open(t, m.Addr()), context.Background()
	for _, key := range hostileTexts() {
		if got, err := c.Throttle(ctx, key, 1, 1, time.Hour, 1); err != nil || got.Remaining != 1 {
			t.Errorf("key %.20q: %+v, %v", key, got, err)
		}
	}
	before := m.Dump()
	for _, bad := range [][4]int64{ // burst, count, seconds, quantity
		{-1, 1, 1, 1}, {1, 0, 1, 1}, {1, -1, 1, 1}, {1, 1, 0, 1}, {1, 1, -1, 1}, {1, 1, 1, -1}, {1, 1, 1, math.MinInt64}, {math.MaxInt64, 1, 1, 1},
		{1, math.MaxInt64, 1, 1}, {1, 1, 1 << 33, 1}, {1, 1, 1, math.MaxInt64}, {1 << 53, 1, 1, 1}, {1 << 40, 1, 60, 1},
	} {
		if got, err := c.Throttle(ctx, "k", bad[0], bad[1], time.Duration(bad[2])*time.Second, bad[3]); err == nil {
			t.Errorf("%v: %+v", bad, got)
		}
	}
	if m.Dump() != before {
		t.Errorf("wrote\n%s", m.Dump())
	}
	if got, err := c.Throttle(ctx, "jump", 0, 1, time.Second, 1); err != nil || got.Limited {
		t.Errorf("%+v, %v", got, err)
	}
	m.SetTime(time.Unix(0, 0))
	if got, err := c.Throttle(ctx, "jump", 0, 1, time.Second, 1); err != nil || !got.Limited {
		t.Errorf("a clock that jumped back: %+v, %v", got, err)
	}
}
