package limit_test

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
)

func TestInFlight(t *testing.T) {
	t.Parallel()
	const second = time.Second
	start := time.Unix(1_700_000_000, 0)
	f, err := limit.NewInFlight(2, 10*second)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		at   time.Duration
		id   string // "-a" releases a
		want limit.Result
	}{
		{0, "a", limit.Result{Allowed: true, Limit: 2, Remaining: 1, ResetAfter: 10 * second}},
		{1 * second, "b", limit.Result{Allowed: true, Limit: 2, ResetAfter: 10 * second}},
		{2 * second, "c", limit.Result{Limit: 2, RetryAfter: 8 * second, ResetAfter: 9 * second}},
		// prolonged, not a second slot
		{3 * second, "a", limit.Result{Allowed: true, Limit: 2, ResetAfter: 10 * second}},
		{4 * second, "c", limit.Result{Limit: 2, RetryAfter: 7 * second, ResetAfter: 9 * second}},
		{5 * second, "-c", limit.Result{}},
		{5 * second, "-b", limit.Result{Allowed: true}},
		{5 * second, "-b", limit.Result{}},
		{5 * second, "c", limit.Result{Allowed: true, Limit: 2, ResetAfter: 10 * second}},
		{4 * second, "d", limit.Result{Limit: 2, RetryAfter: 8 * second, ResetAfter: 10 * second}}, // judged at 5 s
		// the clock was set back: by the new time
		{-6 * second, "d", limit.Result{Limit: 2, RetryAfter: 19 * second, ResetAfter: 21 * second}},
		{13*second - 1000, "d", limit.Result{Limit: 2, RetryAfter: 1000, ResetAfter: 2*second + 1000}},
		{13 * second, "d", limit.Result{Allowed: true, Limit: 2, ResetAfter: 10 * second}}, // a never came back
		{13 * second, "-a", limit.Result{}},
	} {
		got, now := limit.Result{}, start.Add(c.at)
		if c.id[0] == '-' {
			got.Allowed = f.Release(now, c.id[1:])
		} else {
			got = f.Acquire(now, c.id)
		}
		if got != c.want {
			t.Errorf("call %d: %+v, want %+v", i, got, c.want)
		}
	}
	closed, _ := limit.NewInFlight(0, second)
	if r := closed.Acquire(start, "a"); r != (limit.Result{RetryAfter: hottype.Never}) {
		t.Errorf("none may run: %+v", r)
	}
	for _, life := range []time.Duration{0, -second, 1500, 500 * 24 * time.Hour} {
		if _, err := limit.NewInFlight(1, life); err == nil {
			t.Errorf("a life of %v", life)
		}
	}
}

// places holds the bounds of each call.
type places struct{ *limit.InFlight }

func (p places) Acquire(now time.Time, most int64, life time.Duration, id string) limit.Result {
	if err := p.SetLimits(most, life); err != nil {
		panic(err)
	}
	return p.InFlight.Acquire(now, id)
}

func TestInFlightLaws(t *testing.T) {
	t.Parallel()
	limittest.RunInFlight(t, func() limittest.InFlightLimiter {
		f, err := limit.NewInFlight(1, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return places{f}
	})
}

// Time is counted in whole microseconds, as in Redis.
func TestInFlightInMicroseconds(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	for at, want := range map[time.Duration]limit.Result{
		100:                     {Limit: 1, RetryAfter: time.Second, ResetAfter: time.Second},
		time.Second - 1:         {Limit: 1, RetryAfter: time.Microsecond, ResetAfter: time.Microsecond},
		time.Second + 1:         {Allowed: true, Limit: 1, ResetAfter: time.Second},
		3*time.Second - 1 + 1e9: {Allowed: true, Limit: 1, ResetAfter: time.Second},
	} {
		f, err := limit.NewInFlight(1, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		f.Acquire(start.Add(900), "a")
		if got := f.Acquire(start.Add(at), "b"); got != want {
			t.Errorf("after %v: %+v, want %+v", at, got, want)
		}
	}
}
