package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

// throttleCall is one call at a time in ms, and its five numbers.
type throttleCall struct {
	ms, quantity int64
	want         [5]int64
}

// What redis-cell and throttled print, and two calls in their own words.
func TestThrottleAsPublished(t *testing.T) {
	t.Parallel()
	clients := map[string]*Client{"server": open(t, redistest.Start(t).Addr()), "miniredis": open(t, miniredis.RunT(t).Addr())}
	for name, c := range clients {
		clock := setClock(c, time.Now())
		for _, tape := range []struct {
			key          string
			burst, count int64
			period       time.Duration
			calls        []throttleCall
		}{
			{"documentation", 15, 30, time.Minute, []throttleCall{{0, 1, [5]int64{0, 16, 15, -1, 2}}}},
			{"end to end", 0, 1, 2 * time.Second, []throttleCall{
				{0, 1, [5]int64{0, 1, 0, -1, 2}}, {0, 1, [5]int64{1, 1, 0, 2, 2}}, {2000, 1, [5]int64{0, 1, 0, -1, 2}}}},
			{"table", 4, 1, time.Second, []throttleCall{
				{0, 6, [5]int64{1, 5, 5, -1, 0}}, {0, 1, [5]int64{0, 5, 4, -1, 1}}, {0, 1, [5]int64{0, 5, 3, -1, 2}},
				{0, 1, [5]int64{0, 5, 2, -1, 3}}, {0, 1, [5]int64{0, 5, 1, -1, 4}}, {0, 1, [5]int64{0, 5, 0, -1, 5}},
				{0, 1, [5]int64{1, 5, 0, 1, 5}}, {3000, 1, [5]int64{0, 5, 2, -1, 3}}, {3100, 1, [5]int64{0, 5, 1, -1, 4}},
				{4000, 1, [5]int64{0, 5, 1, -1, 4}}, {8000, 1, [5]int64{0, 5, 4, -1, 1}}, {9500, 1, [5]int64{0, 5, 4, -1, 1}},
				{9500, 0, [5]int64{0, 5, 4, -1, 1}}, {9500, 2, [5]int64{0, 5, 2, -1, 3}}, {9500, 5, [5]int64{1, 5, 2, 3, 3}},
				{15000, 6, [5]int64{1, 5, 5, -1, 0}}}},
		} {
			start := time.Now()
			for i, call := range tape.calls {
				clock.set(start.Add(time.Duration(call.ms) * time.Millisecond))
				got, err := c.Throttle(context.Background(), tape.key, tape.burst, tape.count, tape.period, call.quantity)
				if err != nil || got.Numbers() != call.want {
					t.Errorf("%s: %s: call %d: %v, want %v; %v", name, tape.key, i, got.Numbers(), call.want, err)
				}
			}
		}
	}
}

// The script keeps a time at which the next call is due, limit.Memory keeps what
// is missing from a bucket: they answer the same.
func TestThrottleIsMemory(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c := steady(t, m.Addr())
	rapid.Check(t, func(rt *rapid.T) {
		m.FlushAll()
		memory, results := limit.NewMemory(limit.MemoryConfig{}), make([]limit.Result, 1)
		spec := limit.Spec{
			Algorithm: limit.GCRA,
			Burst:     rapid.OneOf(rapid.Int64Range(0, 9), rapid.Int64Range(0, 5000)).Draw(rt, "burst"),
			Limit:     rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(1, 30_000_000)).Draw(rt, "count"),
			Window:    time.Duration(rapid.Int64Range(1, 90).Draw(rt, "seconds")) * time.Second,
		}
		now := time.UnixMicro(1_700_000_000_123_456)
		for range 60 {
			quantity := rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, spec.Burst+2)).Draw(rt, "quantity")
			m.SetTime(now)
			got, err := c.Throttle(context.Background(), "k", spec.Burst, spec.Limit, spec.Window, quantity)
			if err != nil {
				rt.Fatal(err)
			}
			charges := []limit.Charge{{Subject: limit.Subject{Name: "k"}, Spec: spec, Cost: quantity}}
			if _, err := memory.Take(context.Background(), now, charges, results); err != nil {
				rt.Fatal(err)
			}
			if want := results[0].Throttle(); got != want {
				rt.Fatalf("%+v: %d at %v: %+v, want %+v", spec, quantity, now, got, want)
			}
			if ttl := m.TTL(c.keys.throttle("k")); results[0].ResetAfter > 0 && (ttl < results[0].ResetAfter || ttl > results[0].ResetAfter+2*time.Millisecond) && quantity > 0 && !got.Limited {
				rt.Fatalf("%+v: %+v kept for %v", spec, results[0], ttl)
			}
			step := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, int64(spec.Window)/1000*(spec.Burst+2)/spec.Limit)).Draw(rt, "us")
			now = now.Add(time.Duration(step) * time.Microsecond)
		}
	})
}

// Another rate finds what the one before has taken, and a clock that is behind
// admits nothing that was taken.
func TestThrottleChanges(t *testing.T) {
	t.Parallel()
	c, now := open(t, redistest.Start(t).Addr()), time.Now()
	clock := setClock(c, now)
	for i, call := range []struct {
		burst, count, at int64
		want             [5]int64
	}{
		{9, 3, 0, [5]int64{0, 10, 9, -1, 1}},
		{9, 7, 0, [5]int64{0, 10, 6, -1, 1}}, // a third of a second was taken
		{0, 7, 0, [5]int64{1, 1, 0, 1, 1}},
		{9, 7, -5, [5]int64{1, 10, 0, 5, 6}},
	} {
		clock.set(now.Add(time.Duration(call.at) * time.Second))
		got, err := c.Throttle(context.Background(), "k", call.burst, call.count, time.Second, 1)
		if err != nil || got.Numbers() != call.want {
			t.Errorf("call %d: %v, want %v; %v", i, got.Numbers(), call.want, err)
		}
	}
}

func TestThrottleRefusesNonsense(t *testing.T) {
	t.Parallel()
	c := open(t, miniredis.RunT(t).Addr())
	for _, bad := range []struct {
		burst, count int64
		period       time.Duration
		quantity     int64
		want         string
	}{
		{-1, 1, time.Second, 1, "not negative"},
		{1, 1, time.Second, -1, "not negative"},
		{1, 0, time.Second, 1, "zero rates"},
		{1, 1, 0, 1, "whole seconds"},
		{1, 1, 1500 * time.Millisecond, 1, "whole seconds"},
		{1 << 50, 7, time.Minute, 1, "too large"},
		{1 << 40, 1 << 10, time.Second, 1, "too large"},
	} {
		if _, err := c.Throttle(context.Background(), "k", bad.burst, bad.count, bad.period, bad.quantity); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
