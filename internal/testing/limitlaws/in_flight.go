package limitlaws

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// InFlightLimiter bounds calls in flight, as limit.InFlight does, by bounds that may change with every call. now may go
// backwards. Then a call counts at the time of the last call that took a place.
type InFlightLimiter interface {
	Acquire(now time.Time, most int64, life time.Duration, id string) limit.Result
	Release(now time.Time, id string) (held bool)
}

// RunInFlight checks every result of random calls against a plain table of leases. open returns a limiter without taken
// places.
func RunInFlight(t *testing.T, open func() InFlightLimiter) {
	check(t, 1, func(rt *rapid.T, steps int) {
		places, want := open(), &leases{ends: map[string]time.Time{}}
		now := time.UnixMicro(rapid.Int64Range(2_000_000_000*100, 1_700_000_000_000_000).Draw(rt, "start"))
		most, life := int64(2), time.Hour
		for range steps {
			now = now.Add(want.step(rt, now))
			if rapid.IntRange(0, 9).Draw(rt, "back") == 0 {
				now = now.Add(-time.Duration(rapid.Int64Range(0, 2_000_000_000).Draw(rt, "us back")) * time.Microsecond)
			}
			if rapid.IntRange(0, 9).Draw(rt, "change") == 0 {
				most = rapid.Int64Range(0, 5).Draw(rt, "most")
				// Redis expires keys by a clock of its own: no life ends while the test runs.
				life = rapid.SampledFrom([]time.Duration{time.Hour, 20 * time.Minute,
					20*time.Minute + time.Microsecond}).Draw(rt, "life")
			}
			id := fmt.Sprint(rapid.IntRange(0, 7).Draw(rt, "id"))
			if rapid.IntRange(0, 3).Draw(rt, "release") == 0 {
				if got, want := places.Release(now, id), want.release(now, id); got != want {
					rt.Fatalf("at %v %s is given back: %v, want %v", now, id, got, want)
				}
				continue
			}
			before := fmt.Sprint(want)
			if got, want := places.Acquire(now, most, life, id), want.acquire(now, most, life, id); got != want {
				rt.Fatalf("at %v %s of %d for %v: %+v, want %+v\nleases %s", now, id, most, life, got, want, before)
			}
		}
	})
}

// leases holds the ends of all leases by id, and the time of the last acquisition.
type leases struct {
	ends map[string]time.Time
	at   time.Time
}

func (l *leases) clock(now time.Time) time.Time {
	if l.at.After(now.Add(limitcore.MaxAhead * time.Microsecond)) { // the clock was set back
		l.at = now
	}
	if now.Before(l.at) {
		return l.at
	}
	return now
}

func (l *leases) acquire(now time.Time, most int64, life time.Duration, id string) limit.Result {
	now = l.clock(now)
	live := l.live(now)
	held := l.ends[id].After(now)
	r := limit.Result{Allowed: held || int64(len(live)) < most, Limit: most}
	switch {
	case r.Allowed:
		maps.DeleteFunc(l.ends, func(_ string, end time.Time) bool { return !end.After(now) })
		l.ends[id], l.at = now.Add(life), now
		live = l.live(now)
	case most == 0:
		r.RetryAfter = hottype.Never
	default:
		r.RetryAfter = live[len(live)-int(most)].Sub(now)
	}
	r.Remaining = max(0, most-int64(len(live)))
	if len(live) > 0 {
		r.ResetAfter = live[len(live)-1].Sub(now)
	}
	return r
}

func (l *leases) release(now time.Time, id string) bool {
	now = l.clock(now) // a release of an unknown id also records a clock that was set back
	end, held := l.ends[id]
	delete(l.ends, id)
	return held && end.After(now)
}

// live returns the ends after now, in order.
func (l *leases) live(now time.Time) []time.Time {
	ends := slices.SortedFunc(maps.Values(l.ends), time.Time.Compare)
	return slices.DeleteFunc(ends, func(end time.Time) bool { return !end.After(now) })
}

// step draws a time that is often the end of a lease or the microsecond before it.
func (l *leases) step(rt *rapid.T, now time.Time) time.Duration {
	ends := l.live(now)
	if len(ends) == 0 || rapid.Bool().Draw(rt, "soon") {
		return time.Duration(rapid.Int64Range(0, 1_000_000_000).Draw(rt, "us")) * time.Microsecond
	}
	early := time.Duration(rapid.IntRange(0, 1).Draw(rt, "early")) * time.Microsecond
	return rapid.SampledFrom(ends).Draw(rt, "end").Sub(now) - early
}
