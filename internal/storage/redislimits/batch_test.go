package redislimits

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// Requests of one call are decided one after the other: the numbers equal those from limit.Memory, whichever requests
// share a place. Requests whose waiters left before the call was sent are not charged.
func TestBatchMatchesMemoryStore(t *testing.T) {
	t.Parallel()
	store, l := onServer(t, redistest.Start(t))
	rapid.Check(t, func(rt *rapid.T) {
		store.Reset()
		m, now := limit.NewMemory(limit.MemoryConfig{}), time.UnixMicro(1_700_000_000_000_000)
		for range rapid.IntRange(1, 4).Draw(rt, "batches") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, 1, 700, 350_000, -1000, 1_000_000,
				-9_000_000, -11_000_000}).Draw(rt, "pause") * time.Microsecond)
			store.SetClock(now)
			b := newBatch()
			requests, waiters := [][]limit.Charge{}, []waiter{}
			for len(waiters) < rapid.IntRange(1, 60).Draw(rt, "requests") {
				charges := drawRequest(rt)
				own := rapid.SliceOfN(rapid.Bool(), len(charges), len(charges)).Draw(rt, "own")
				turn := rapid.Bool().Draw(rt, "turn")
				for n := range rapid.SampledFrom([]int{1, 1, 2, 9}).Draw(rt, "times") {
					charges = slices.Clone(charges)
					for i := range charges { // as with windows of clients beside a hot key
						if own[i] {
							charges[i].Subject.Space = fmt.Sprint("own", i,
								rapid.SampledFrom([]int{n, n, n, n, 1}).Draw(rt, "client"))
						}
					}
					// the same limits on other keys
					if first, final := &charges[0].Subject, &charges[len(charges)-1].Subject; turn {
						*first, *final = *final, *first
					}
					requests, waiters = append(requests, charges), append(waiters, addOne(rt, l, b, charges))
				}
			}
			gone := map[int]bool{}
			for range rapid.SampledFrom([]int{0, 0, 3}).Draw(rt, "leave") {
				if i := rapid.IntRange(0, len(waiters)-1).Draw(rt, "who"); !gone[i] {
					gone[i] = true
					g := &b.requests[waiters[i].request]
					g.gone = append(g.gone, waiters[i].place)
				}
			}
			if b.wantedCount() == 0 {
				continue
			}
			if err := l.send(context.Background(), b); err != nil {
				rt.Fatal(err)
			}
			// Equal requests are decided in the place of the first of them.
			for g := range b.requests {
				for i, s := range waiters {
					if int(s.request) == g && !gone[i] {
						compare(rt, m, now, requests[i], s)
					}
				}
			}
		}
	})
}

// Equal requests for one bucket have a path of their own in the script, and get the answers of limit.Memory, also if
// the state was written under other terms.
func TestBatchOfEqualsMatchesMemoryStore(t *testing.T) {
	t.Parallel()
	store, l := onServer(t, redistest.Start(t))
	specs := []limit.Spec{
		{Algorithm: limit.TokenBucket, Limit: 3, Window: 7 * time.Millisecond, Burst: 20},
		{Algorithm: limit.TokenBucket, Limit: 3, Window: 7 * time.Millisecond, Burst: 20, Wait: 5 * time.Millisecond},
		{Algorithm: limit.TokenBucket, Limit: 3, Window: 7 * time.Millisecond, Burst: 20, Reserve: 5},
		{Algorithm: limit.GCRA, Limit: 4, Window: 7 * time.Millisecond, Burst: 19, Reserve: 16},
		{Algorithm: limit.TokenBucket, Limit: 3_000_000, Window: time.Second, Burst: 9},
		{Algorithm: limit.FixedWindow, Limit: 12, Window: time.Second},
	}
	rapid.Check(t, func(rt *rapid.T) {
		store.Reset()
		m, now := limit.NewMemory(limit.MemoryConfig{}), time.UnixMicro(1_700_000_000_000_000)
		for range 12 {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, 0, 1, 700, 5000, -1000, 1_000_000}).
				Draw(rt, "pause") * time.Microsecond)
			charges := []limit.Charge{{
				Subject: limit.Subject{Space: "test", Name: "a"},
				Spec:    rapid.SampledFrom(specs).Draw(rt, "spec"),
				Cost:    rapid.SampledFrom([]int64{0, 1, 2, 5, 19, 21}).Draw(rt, "cost"),
			}}
			store.SetClock(now)
			b, waiters := newBatch(), []waiter{}
			for range rapid.SampledFrom([]int{1, 2, 3, 40}).Draw(rt, "callers") {
				waiters = append(waiters, addOne(rt, l, b, charges))
			}
			if err := l.send(context.Background(), b); err != nil {
				rt.Fatal(err)
			}
			for _, s := range waiters {
				compare(rt, m, now, charges, s)
			}
		}
	})
}

// If all callers that asked for the first key of a call have left, the second key is charged and not the first.
func TestBatch_SkipsFirstKeyWithoutCallers(t *testing.T) {
	t.Parallel()
	l := openLimiter(t, redistest.Start(t).Addr())
	b := newBatch()
	for _, name := range []string{"left", "stayed"} {
		r := new(request)
		c := limit.Charge{Subject: limit.Subject{Space: "test", Name: name}, Cost: 3,
			Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Hour, Burst: 20}}
		if err := r.set(l.keys, []limit.Charge{c}); err != nil {
			t.Fatal(err)
		}
		b.add(t.Context(), r)
	}
	b.requests[0].gone = []int32{1}
	if err := l.send(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	names, err := l.rdb.Keys(t.Context(), "*").Result()
	if err != nil || len(names) != 1 || !strings.HasSuffix(names[0], ":stayed") {
		t.Errorf("%q, %v", names, err)
	}
}

// addOne adds a request to the batch and returns its waiter.
func addOne(rt *rapid.T, l *shardLimiter, b *batch, charges []limit.Charge) waiter {
	r := new(request)
	if err := r.set(l.keys, charges); err != nil {
		rt.Fatal(err)
	}
	w, _ := b.add(context.Background(), r)
	return w
}

func compare(rt *rapid.T, m *limit.Memory, now time.Time, charges []limit.Charge, w waiter) {
	got, want := make([]limit.Result, len(charges)), make([]limit.Result, len(charges))
	admitted := w.readResults(got)
	expected, err := m.Take(context.Background(), now, charges, want)
	if err != nil {
		rt.Fatal(err)
	}
	if fmt.Sprint(admitted, got) != fmt.Sprint(expected, want) {
		rt.Fatalf("request %d place %d of %+v:\n%v %+v\n%v %+v", w.request, w.place, charges, admitted, got, expected,
			want)
	}
}

// drawRequest draws from few keys and few specs, so that requests meet.
func drawRequest(rt *rapid.T) []limit.Charge {
	specs := []limit.Spec{
		{Algorithm: limit.TokenBucket, Limit: 3, Window: 7 * time.Millisecond, Burst: 20},
		{Algorithm: limit.TokenBucket, Limit: 3, Window: 7 * time.Millisecond, Burst: 20, Reserve: 5},
		{Algorithm: limit.TokenBucket, Limit: 3, Window: 7 * time.Millisecond, Burst: 20, Reserve: 17},
		{Algorithm: limit.TokenBucket, Limit: 3_000_000, Window: time.Second, Burst: 50},
		{Algorithm: limit.TokenBucket, Limit: 3_000_000, Window: time.Second, Burst: 50, Reserve: 25},
		{Algorithm: limit.LeakyBucket, Limit: 3, Window: 7 * time.Millisecond, Burst: 19, Wait: 5 * time.Millisecond},
		{Algorithm: limit.FixedWindow, Limit: 12, Window: time.Second},
		{Algorithm: limit.SlidingWindow, Limit: 17, Window: 300 * time.Millisecond},
		{Algorithm: limit.SlidingWindow, Limit: 0, Window: time.Second},
	}
	var charges []limit.Charge
	names := rapid.Permutation([]string{"a", "b", "c"}).Draw(rt, "names")
	for i := range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(rt, "charges") {
		charges = append(charges, limit.Charge{
			Subject: limit.Subject{Space: "test", Name: names[i]},
			Spec:    rapid.SampledFrom(specs).Draw(rt, "spec"),
			Cost:    rapid.SampledFrom([]int64{1, 1, 1, 0, 2, 5, 30, 1 << 60}).Draw(rt, "cost"),
		})
	}
	return charges
}

// A call has at most maxWaiters callers and maxCharges charges.
func TestBatch_BoundsCallersAndCharges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		waiters, targets, charges int
		want                      bool
	}{
		{0, 0, 1, true}, {maxWaiters - 1, 0, 1, true}, {maxWaiters, 0, 1, false}, {0, maxCharges - 1, 1, true},
		{0, maxCharges - 1, 2, false}, {0, maxCharges, 1, false},
	} {
		b := newBatch()
		b.waiters, b.targets = c.waiters, slices.Grow(b.targets, c.targets)[:c.targets]
		if got := b.hasRoomFor(&request{charges: make([]charged, c.charges)}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
