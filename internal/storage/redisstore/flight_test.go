package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

// Requests that travel in one call are judged as if each had asked after the
// one before: the same numbers as limit.Memory, whoever is grouped with whom.
// Those who left before departure have not asked.
func TestFlightIsMemory(t *testing.T) {
	t.Parallel()
	store, l := onServer(t, redistest.Start(t))
	rapid.Check(t, func(rt *rapid.T) {
		store.Reset()
		m, now := limit.NewMemory(limit.MemoryConfig{}), time.UnixMicro(1_700_000_000_000_000)
		for range rapid.IntRange(1, 4).Draw(rt, "flights") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, 1, 700, 350_000, -1000, 1_000_000}).Draw(rt, "pause") * time.Microsecond)
			store.SetClock(now)
			f := newFlight()
			requests, seats := [][]limit.Charge{}, []seat{}
			for len(seats) < rapid.IntRange(1, 60).Draw(rt, "requests") {
				charges := drawRequest(rt)
				own := rapid.SliceOfN(rapid.Bool(), len(charges), len(charges)).Draw(rt, "own")
				turn := rapid.Bool().Draw(rt, "turn")
				for n := range rapid.SampledFrom([]int{1, 1, 2, 9}).Draw(rt, "times") {
					charges = slices.Clone(charges)
					for i := range charges { // as with windows of clients beside a hot key
						if own[i] {
							charges[i].Subject.Space = fmt.Sprint("own", i, rapid.SampledFrom([]int{n, n, n, n, 1}).Draw(rt, "client"))
						}
					}
					if first, final := &charges[0].Subject, &charges[len(charges)-1].Subject; turn { // the same limits on other keys
						*first, *final = *final, *first
					}
					requests, seats = append(requests, charges), append(seats, boardOne(rt, l, f, charges))
				}
			}
			gone := map[int]bool{}
			for range rapid.SampledFrom([]int{0, 0, 3}).Draw(rt, "leave") {
				if i := rapid.IntRange(0, len(seats)-1).Draw(rt, "who"); !gone[i] {
					gone[i] = true
					g := &f.groups[seats[i].group]
					g.gone = append(g.gone, seats[i].place)
				}
			}
			if f.asks() == 0 {
				continue
			}
			if err := l.fly(context.Background(), f); err != nil {
				rt.Fatal(err)
			}
			// A group is judged where its first request stands.
			for g := range f.groups {
				for i, s := range seats {
					if int(s.group) == g && !gone[i] {
						compare(rt, m, now, requests[i], s)
					}
				}
			}
		}
	})
}

// A call about a single bucket goes a way of its own in the script, to the same
// answers, also where the state was written under other terms.
func TestFlightOfOneBucketIsMemory(t *testing.T) {
	t.Parallel()
	store, l := onServer(t, redistest.Start(t))
	specs := []limit.Spec{
		{Algorithm: limit.TokenBucket, Limit: 3, Window: 7 * time.Millisecond, Burst: 20},
		{Algorithm: limit.TokenBucket, Limit: 3, Window: 7 * time.Millisecond, Burst: 20},
		{Algorithm: limit.TokenBucket, Limit: 3_000_000, Window: time.Second, Burst: 9},
		{Algorithm: limit.FixedWindow, Limit: 12, Window: time.Second},
	}
	rapid.Check(t, func(rt *rapid.T) {
		store.Reset()
		m, now := limit.NewMemory(limit.MemoryConfig{}), time.UnixMicro(1_700_000_000_000_000)
		for range 12 {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, 0, 1, 700, 5000, -1000, 1_000_000}).Draw(rt, "pause") * time.Microsecond)
			charges := []limit.Charge{{
				Subject: limit.Subject{Space: "test", Name: "a"},
				Spec:    rapid.SampledFrom(specs).Draw(rt, "spec"),
				Cost:    rapid.SampledFrom([]int64{0, 1, 2, 5, 19, 21}).Draw(rt, "cost"),
			}}
			store.SetClock(now)
			f, seats := newFlight(), []seat{}
			for range rapid.SampledFrom([]int{1, 2, 3, 40}).Draw(rt, "callers") {
				seats = append(seats, boardOne(rt, l, f, charges))
			}
			if err := l.fly(context.Background(), f); err != nil {
				rt.Fatal(err)
			}
			for _, s := range seats {
				compare(rt, m, now, charges, s)
			}
		}
	})
}

// Where all who asked for the first key of a call have left, the second one is
// charged and not the first.
func TestFlightWithoutTheFirst(t *testing.T) {
	t.Parallel()
	l, f := openLimiter(t, redistest.Start(t).Addr()), newFlight()
	for _, name := range []string{"left", "stayed"} {
		q := new(question)
		c := limit.Charge{Subject: limit.Subject{Space: "test", Name: name}, Cost: 3, Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Hour, Burst: 20}}
		if err := q.set(l.c.keys, []limit.Charge{c}); err != nil {
			t.Fatal(err)
		}
		f.join(q)
	}
	f.groups[0].gone = []int32{1}
	if err := l.fly(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	names, err := l.c.rdb.Keys(t.Context(), "*").Result()
	if err != nil || len(names) != 1 || !strings.HasSuffix(names[0], ":stayed") {
		t.Errorf("%q, %v", names, err)
	}
}

// boardOne gives a seat, to a known face as Take does.
func boardOne(rt *rapid.T, l *shardLimiter, f *flight, charges []limit.Charge) seat {
	if len(charges) == 1 {
		if s, ok := f.follow(&charges[0]); ok {
			return s
		}
	}
	q := new(question)
	if err := q.set(l.c.keys, charges); err != nil {
		rt.Fatal(err)
	}
	s, _ := f.join(q)
	return s
}

func compare(rt *rapid.T, m *limit.Memory, now time.Time, charges []limit.Charge, s seat) {
	got, want := make([]limit.Result, len(charges)), make([]limit.Result, len(charges))
	admitted := s.read(got)
	expected, err := m.Take(context.Background(), now, charges, want)
	if err != nil {
		rt.Fatal(err)
	}
	if fmt.Sprint(admitted, got) != fmt.Sprint(expected, want) {
		rt.Fatalf("group %d place %d of %+v:\n%v %+v\n%v %+v", s.group, s.place, charges, admitted, got, expected, want)
	}
}

// drawRequest draws from few keys and few specs, so that requests meet.
func drawRequest(rt *rapid.T) []limit.Charge {
	specs := []limit.Spec{
		{Algorithm: limit.TokenBucket, Limit: 3, Window: 7 * time.Millisecond, Burst: 20},
		{Algorithm: limit.TokenBucket, Limit: 3_000_000, Window: time.Second, Burst: 50},
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

// What the script cannot say is an error for everybody on board.
func TestFlightSettle(t *testing.T) {
	t.Parallel()
	charges, _ := aRequest()
	l := openLimiter(t, "127.0.0.1:1")
	for _, c := range []struct {
		answer []int64
		want   string
	}{
		{[]int64{2, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5, 77}, ""},
		{[]int64{1, 9, 5, 300, 0, 9, 5, 3, 9, 5, 0, 9, 5, 0, 77}, ""},
		{[]int64{0, 0, 5, -1, 0, 0, 5, -1, 0, 5, 0, 0, 5, 0, 77}, ""},
		{nil, "at 0"},
		{[]int64{3, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5}, "want 0 to 2"},
		{[]int64{-1, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5}, "want 0 to 2"},
		{[]int64{2, 9, 5, 7}, "at 4"},
		{[]int64{2, 9, 5, 7, 1, 9, 5, 9, 5, 9}, "at 10"},
		{[]int64{2, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5}, "want 12"},
		{[]int64{2, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5, 1, 77}, "want 12"},
		{[]int64{2, 9, 5, 7, 1, 9, 5, 9, 5, 9, 5, -1}, "want 12"},
		{[]int64{2, 9, -2, 7, 1, 9, 5, 9, 5, 9, 5}, "at 2"},
	} {
		f, q := newFlight(), new(question)
		for _, n := range []int{1, 1, 3} {
			if err := q.set(l.c.keys, charges[:n]); err != nil {
				t.Fatal(err)
			}
			f.join(q)
		}
		if err := f.settle(c.answer); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.answer, err, c.want)
		}
	}
}
