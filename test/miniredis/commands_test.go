package miniredis_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
)

// kept returns the time to live of the only key, or 0 if there is no key.
func kept(m *miniredis.Miniredis) time.Duration {
	if keys := m.Keys(); len(keys) == 1 {
		return m.TTL(keys[0])
	}
	return 0
}

// The script and limit.Memory answer the same, although the script stores the time at which the next call is due and
// limit.Memory the tokens that a bucket lacks.
func TestThrottle_MatchesTheMemoryStore(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c := client(t, m)
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
			if ttl := kept(m); results[0].ResetAfter > 0 &&
				(ttl < results[0].ResetAfter || ttl > results[0].ResetAfter+2*time.Millisecond) && quantity > 0 &&
				!got.Limited {
				rt.Fatalf("%+v: %+v kept for %v", spec, results[0], ttl)
			}
			step := rapid.OneOf(rapid.Int64Range(0, 1000),
				rapid.Int64Range(0, int64(spec.Window)/1000*(spec.Burst+2)/spec.Limit)).Draw(rt, "us")
			now = now.Add(time.Duration(step) * time.Microsecond)
		}
	})
}

// The script and limit.InFlight answer the same, a denied call writes nothing, and the key disappears with its last
// lease.
func TestInFlight_MatchesTheMemoryStore(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c, ctx := client(t, m), context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		m.FlushAll()
		most, life := rapid.Int64Range(0, 5).Draw(rt, "most"),
			time.Duration(rapid.Int64Range(1, 5000).Draw(rt, "us"))*time.Microsecond
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
			if ttl := kept(m); got.Allowed && (ttl < got.ResetAfter || ttl > got.ResetAfter+3*time.Millisecond) {
				rt.Fatalf("%+v: kept for %v", got, ttl)
			}
		}
	})
}

// hostileTexts are names of any length and of any bytes.
func hostileTexts() []string {
	var all []string
	for _, s := range limittest.AdversarialSubjects() {
		if s.Space == "test" && s.Client.IsZero() {
			all = append(all, s.Name)
		}
	}
	return all
}

// Leases under any key and any id are apart from each other; a clock that jumps
// back prolongs no lease and frees none.
func TestInFlight_SeparatesHostileKeys(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c, ctx, texts := client(t, m), context.Background(), hostileTexts()
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

// Throttle separates keys of any bytes, and numbers that it cannot store exactly are an error that writes nothing.
func TestThrottle_SeparatesHostileKeys(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	c, ctx := client(t, m), context.Background()
	for _, key := range hostileTexts() {
		if got, err := c.Throttle(ctx, key, 1, 1, time.Hour, 1); err != nil || got.Remaining != 1 {
			t.Errorf("key %.20q: %+v, %v", key, got, err)
		}
	}
	before := m.Dump()
	for _, bad := range [][4]int64{ // burst, count, seconds, quantity
		{-1, 1, 1, 1}, {1, 0, 1, 1}, {1, -1, 1, 1}, {1, 1, 0, 1}, {1, 1, -1, 1}, {1, 1, 1, -1},
		{1, 1, 1, math.MinInt64}, {math.MaxInt64, 1, 1, 1},
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
