package redislimits

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/lua"
)

// throttleCall is one call at a time in ms, and its five numbers.
type throttleCall struct {
	ms, quantity int64
	want         [5]int64
}

// The script returns the numbers that redis-cell and throttled publish, and the results of two calls as they describe
// them.
func TestThrottle_ReturnsPublishedNumbers(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	clock := setClock(c.rdb, time.Now())
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
			{4000, 1, [5]int64{0, 5, 1, -1, 4}}, {8000, 1, [5]int64{0, 5, 4, -1, 1}},
			{9500, 1, [5]int64{0, 5, 4, -1, 1}},
			{9500, 0, [5]int64{0, 5, 4, -1, 1}}, {9500, 2, [5]int64{0, 5, 2, -1, 3}},
			{9500, 5, [5]int64{1, 5, 2, 3, 3}},
			{15000, 6, [5]int64{1, 5, 5, -1, 0}}}},
	} {
		start := time.Now()
		for i, call := range tape.calls {
			clock.Set(start.Add(time.Duration(call.ms) * time.Millisecond))
			got, err := c.Throttle(context.Background(), tape.key, tape.burst, tape.count, tape.period, call.quantity)
			if err != nil || fiveNumbers(got) != call.want {
				t.Errorf("%s: call %d: %v, want %v; %v", tape.key, i, fiveNumbers(got), call.want, err)
			}
		}
	}
}

// Under another rate the tokens that were taken before count, and a clock that is behind allows no token that was
// taken.
func TestThrottle_KeepsTakenTokensUnderAnotherRate(t *testing.T) {
	t.Parallel()
	c, now := open(t, redistest.Start(t).Addr()), time.Now()
	clock := setClock(c.rdb, now)
	for i, call := range []struct {
		burst, count, at int64
		want             [5]int64
	}{
		{9, 3, 0, [5]int64{0, 10, 9, -1, 1}},
		{9, 7, 0, [5]int64{0, 10, 6, -1, 1}}, // a third of a second was taken
		{0, 7, 0, [5]int64{1, 1, 0, 1, 1}},
		{9, 7, -5, [5]int64{1, 10, 0, 5, 6}},
	} {
		clock.Set(now.Add(time.Duration(call.at) * time.Second))
		got, err := c.Throttle(context.Background(), "k", call.burst, call.count, time.Second, 1)
		if err != nil || fiveNumbers(got) != call.want {
			t.Errorf("call %d: %v, want %v; %v", i, fiveNumbers(got), call.want, err)
		}
	}
}

// GCRA is a bucket with one more call, described by the time at which it is empty, so the algorithm in Go is the
// oracle, including the exact moments at which a call is due.
func TestThrottleMatchesGCRA(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	clock, r := setClock(c.rdb, time.Now()), rand.New(rand.NewPCG(1, 2))
	seconds := func(us int64) int64 { return limitcore.CeilDiv(max(0, us), 1_000_000) }
	for key := range 40 {
		spec := limitcore.Spec{Algorithm: limit.GCRA, Limit: 1 + r.Int64N(12),
			Window: time.Duration(1+r.Int64N(9)) * time.Second,
			Burst:  r.Int64N(8)}
		terms, err := spec.Compile()
		if err != nil {
			t.Fatal(err)
		}
		var state limitcore.State
		now := time.Now().UnixMicro()
		for range 25 {
			clock.Set(time.UnixMicro(now))
			quantity := r.Int64N(spec.Burst + 3)
			o := terms.Charge(&state, nil, now, quantity)
			want := [5]int64{1, spec.Burst + 1, o.Remaining, -1, seconds(o.Reset)}
			if o.Allowed {
				want[0] = 0
			} else if o.Retry >= 0 {
				want[3] = seconds(o.Retry)
			}
			got, err := c.Throttle(context.Background(), fmt.Sprint(key), spec.Burst, spec.Limit, spec.Window, quantity)
			if err != nil || fiveNumbers(got) != want {
				t.Fatalf("%+v, cost %d at %d: %v, want %v; %v", spec, quantity, now, fiveNumbers(got), want, err)
			}
			steps := []int64{0, 1, o.Reset, o.Reset - 1, o.Retry, o.Retry - 1, o.Reset % 1_000_000,
				o.Reset%1_000_000 - 1,
				r.Int64N(2_000_000)}
			now += max(0, steps[r.IntN(len(steps))])
		}
	}
}

// Under another rate the taken part is rounded up to a microsecond, and not more.
func TestThrottle_RoundsTakenPartUp(t *testing.T) {
	t.Parallel()
	c, now := open(t, redistest.Start(t).Addr()), time.Now().Truncate(time.Second)
	clock := setClock(c.rdb, now)
	for i, call := range []struct {
		us, count, quantity int64
		want                [5]int64
	}{
		{0, 3, 1, [5]int64{0, 10, 9, -1, 1}}, // 333,333 us and a third
		{333_333, 3, 0, [5]int64{0, 10, 9, -1, 1}}, {333_334, 3, 0, [5]int64{0, 10, 10, -1, 0}},
		{333_333, 7, 0, [5]int64{0, 10, 9, -1, 1}}, {333_334, 7, 0, [5]int64{0, 10, 10, -1, 0}},
		{1_000_000, 3, 2, [5]int64{0, 10, 8, -1, 1}}, // 666,666 us and two thirds
		{1_166_666, 2, 0, [5]int64{0, 10, 8, -1, 1}}, {1_166_667, 2, 0, [5]int64{0, 10, 9, -1, 1}},
	} {
		clock.Set(now.Add(time.Duration(call.us) * time.Microsecond))
		got, err := c.Throttle(context.Background(), "k", 9, call.count, time.Second, call.quantity)
		if err != nil || fiveNumbers(got) != call.want {
			t.Errorf("call %d: %v, want %v; %v", i, fiveNumbers(got), call.want, err)
		}
	}
}

// A state lives as long as it affects a call, and a millisecond longer.
func TestThrottle_StateLivesWhileItCounts(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	for _, hours := range []int64{1, 10} {
		key := fmt.Sprint(hours)
		if _, err := c.Throttle(context.Background(), key, 0, 1, time.Duration(hours)*time.Hour, 1); err != nil {
			t.Fatal(err)
		}
		life, err := c.rdb.PTTL(context.Background(), c.keys.throttleKey(key)).Result()
		if most := time.Duration(hours)*time.Hour + time.Millisecond; err != nil || life > most ||
			life < most-3*time.Second {
			t.Errorf("%d hours: %v; %v", hours, life, err)
		}
	}
}

// The last rate that can be stored exactly is accepted, and the next one is rejected.
func TestThrottle_AcceptsExactRatesOnly(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	for i, at := range []struct {
		burst, count, seconds int64
		valid                 bool
	}{
		{0, 1, 35_184_372, true}, {0, 1, 35_184_373, false},
		{70_368_743, 1, 1, true}, {70_368_744, 1, 1, false}, // 2^46 us to fill
		{1<<46 - 1, 1_000_000, 1, true}, {1 << 46, 1_000_000, 1, false},
		{9_007_199_253, 999_999, 1, true}, {9_007_199_254, 999_999, 1, false}, // 2^53 units
		{1<<53 - 2, 256_000_000, 1, true}, {1<<53 - 1, 256_000_000, 1, false},
	} {
		_, err := c.Throttle(context.Background(), fmt.Sprint(i), at.burst, at.count,
			time.Duration(at.seconds)*time.Second, 0)
		if (err == nil) != at.valid {
			t.Errorf("%+v: %v", at, err)
		}
	}
}

// Without a quantity a call counts as one, as in redis-cell.
func TestThrottle_CountsOneWithoutQuantity(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	for i, args := range [][]any{{4, 1, 60}, {4, 1, 60, ""}, {4, 1, 60, 1}} {
		key := fmt.Sprint("k", i)
		got, err := c.rdb.Eval(t.Context(), lua.CLThrottle(), []string{key}, args...).Int64Slice()
		if want := []int64{0, 5, 4, -1, 60}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v; %v", args, got, want, err)
		}
	}
}

func TestThrottleRejectsNonsense(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
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
		if _, err := c.Throttle(context.Background(), "k", bad.burst, bad.count, bad.period,
			bad.quantity); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, bad := range []struct { // as another program may call it
		args []any
		want string
	}{
		{[]any{-1, 1, 1, 1}, "not negative"}, {[]any{0.5, 1, 1, 1}, "not negative"},
		{[]any{"x", 1, 1, 1}, "not negative"},
		{[]any{1, 1, 1, -1}, "not negative"}, {[]any{1, 1, 1, "x"}, "not negative"},
		{[]any{1, 0, 1, 1}, "zero rates"}, {[]any{1, 1, 0, 1}, "zero rates"}, {[]any{1, 1.5, 1, 1}, "zero rates"},
		{[]any{1, 1, "1e16", 1}, "zero rates"},
	} {
		err := c.rdb.Eval(t.Context(), lua.CLThrottle(), []string{"k"}, bad.args...).Err()
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v: %v", bad.args, err)
		}
	}
}

// fiveNumbers returns a reply in the form of CL.THROTTLE.
func fiveNumbers(r limit.ThrottleReply) [5]int64 {
	limited := int64(0)
	if r.Limited {
		limited = 1
	}
	return [5]int64{limited, r.Limit, r.Remaining, r.RetryAfter, r.ResetAfter}
}
