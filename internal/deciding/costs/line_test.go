package costs

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var began = time.Unix(1_700_000_000, 0)

// request is a request in a model of an upstream that works on some requests at once and on the others in their order.
type request struct {
	arrives, needs, begins, ends time.Duration
	place                        *place
}

// An upstream serves its requests in their order. The line finds how long it worked on each, and none of the time in
// which the request waited.
func TestLine_FindsWorkOfEachRequest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 6).Draw(t, "workers")
		var all []*request
		at, free := time.Duration(0), make([]time.Duration, workers)
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			at += time.Duration(rapid.IntRange(0, 50).Draw(t, "pause")) * time.Millisecond
			r := &request{arrives: at, needs: time.Duration(rapid.IntRange(1, 400).Draw(t, "needs")) * time.Millisecond}
			slices.Sort(free)
			r.begins = max(at, free[0])
			r.ends = r.begins + r.needs
			free[0] = r.ends
			all = append(all, r)
		}
		order := func(leaves bool) int { return map[bool]int{true: 0, false: 1}[leaves] }
		type event struct {
			at    time.Duration
			leave bool
			r     *request
		}
		var events []event
		for _, r := range all {
			events = append(events, event{r.arrives, false, r}, event{r.ends, true, r})
		}
		slices.SortStableFunc(events, func(a, b event) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(order(a.leave), order(b.leave)))
		})
		l := &line{workers: float64(workers)}
		for _, e := range events {
			now := began.Add(e.at)
			if !e.leave {
				e.r.place = l.enter(now)
				continue
			}
			if got := l.leave(e.r.place, now); (got - e.r.needs).Abs() > time.Microsecond {
				t.Fatalf("%v of work for a request that arrived at %v, began at %v and took %v", got, e.r.arrives,
					e.r.begins, e.r.needs)
			}
		}
		if l.places.Len() != 0 || l.last != nil {
			t.Fatalf("%d places are left", l.places.Len())
		}
	})
}

// Whatever comes and goes, in any order and with any change of workers, no more time is found than the workers have,
// and the time belongs to the oldest requests.
func TestLine_FindsNoMoreThanWorkersHave(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.Float64Range(0.1, 5).Draw(t, "workers")
		l := &line{workers: workers}
		now := began
		var in []*place
		var want, got time.Duration
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			d := time.Duration(rapid.IntRange(0, 1000).Draw(t, "pause")) * time.Millisecond
			now = now.Add(d)
			want += time.Duration(min(workers, float64(len(in))) * float64(d))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				in = append(in, l.enter(now))
			case 2:
				if len(in) > 0 {
					i := rapid.IntRange(0, len(in)-1).Draw(t, "who")
					got += l.leave(in[i], now)
					if again := l.leave(in[i], now.Add(time.Second)); again != time.Duration(in[i].worked) {
						t.Fatalf("leaving twice: %v", again)
					}
					in = slices.Delete(in, i, i+1)
				}
			case 3:
				workers = rapid.Float64Range(0.1, 5).Draw(t, "workers")
				if rapid.Bool().Draw(t, "whole") {
					workers = math.Ceil(workers)
				}
				l.setWorkers(now, workers)
			}
			for i, p := range in {
				if share := min(max(workers-float64(i), 0), 1); math.Abs(p.share-share) > 1e-9 {
					t.Fatalf("request %d of %d has %v of its time with %v workers, want %v", i, len(in), p.share, workers,
						share)
				}
			}
		}
		for _, p := range in {
			got += l.workedOn(p, now)
		}
		if (got - want).Abs() > time.Millisecond {
			t.Fatalf("found %v, the workers had %v", got, want)
		}
	})
}
