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
)

// InFlightLimiter bounds calls in flight, as limit.InFlight does, by bounds that may change with
// every call. now never runs backwards.
type InFlightLimiter interface {
	Acquire(now time.Time, most int64, life time.Duration, id string) limit.Result
	Release(now time.Time, id string) (held bool)
}

// RunInFlight checks every result of random calls against a plain table of leases. open
// returns places of which none is taken.
func RunInFlight(t *testing.T, open func() InFlightLimiter) {
	check(t, 1, func(rt *rapid.T, steps int) {
		places, want := open(), leases{}
		now := time.UnixMicro(rapid.Int64Range(0, 1_700_000_000_000_000).Draw(rt, "start"))
		most, life := int64(2), time.Hour
		for range steps {
			now = now.Add(want.step(rt, now))
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

// leases are the ends of all that run, by id.
type leases map[string]time.Time

func (l leases) acquire(now time.Time, most int64, life time.Duration, id string) limit.Result {
	maps.DeleteFunc(l, func(_ string, end time.Time) bool { return !end.After(now) })
	_, held := l[id]
	r := limit.Result{Allowed: held || int64(len(l)) < most, Limit: most}
	switch ends := l.ends(); {
	case r.Allowed:
		l[id] = now.Add(life)
	case most == 0:
		r.RetryAfter = hottype.Never
	default:
		r.RetryAfter = ends[len(ends)-int(most)].Sub(now)
	}
	r.Remaining = max(0, most-int64(len(l)))
	if ends := l.ends(); len(ends) > 0 {
		r.ResetAfter = ends[len(ends)-1].Sub(now)
	}
	return r
}

func (l leases) release(now time.Time, id string) bool {
	end, held := l[id]
	delete(l, id)
	return held && end.After(now)
}

// ends are in order.
func (l leases) ends() []time.Time { return slices.SortedFunc(maps.Values(l), time.Time.Compare) }

// step draws a time that often meets the end of a lease, or the microsecond before.
func (l leases) step(rt *rapid.T, now time.Time) time.Duration {
	ends := slices.DeleteFunc(l.ends(), func(end time.Time) bool { return !end.After(now) })
	if len(ends) == 0 || rapid.Bool().Draw(rt, "soon") {
		return time.Duration(rapid.Int64Range(0, 1_000_000_000).Draw(rt, "us")) * time.Microsecond
	}
	early := time.Duration(rapid.IntRange(0, 1).Draw(rt, "early")) * time.Microsecond
	return rapid.SampledFrom(ends).Draw(rt, "end").Sub(now) - early
}
