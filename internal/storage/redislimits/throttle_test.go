package redislimits

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// throttleCall is one call at a time in ms, and its five numbers.
type throttleCall struct {
	ms, quantity int64
	want         [5]int64
}

// What redis-cell and throttled print, and two calls in their own words.
func TestThrottleAsPublished(t *testing.T) {
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

// Another rate finds what the one before has taken, and a clock that is behind
// admits nothing that was taken.
func TestThrottleChanges(t *testing.T) {
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

func TestThrottleRefusesNonsense(t *testing.T) {
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
}

// fiveNumbers is a reply as CL.THROTTLE says it.
func fiveNumbers(r limit.ThrottleReply) [5]int64 {
	limited := int64(0)
	if r.Limited {
		limited = 1
	}
	return [5]int64{limited, r.Limit, r.Remaining, r.RetryAfter, r.ResetAfter}
}
