package redislimits

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// Whatever is asked, granted, spent and put back in whatever order: never more is
// held than most, and nothing that was granted is forgotten.
func TestPrefetchKeyNeverExceedsMax(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const most = 500
		c := hotCharge(1_000_000, 1)
		k, r := newPrefetchKey(&c, most), new(limit.Result)
		var granted, spent, due int64
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			cost := rapid.Int64Range(1, 40).Draw(rt, "cost")
			switch rapid.SampledFrom([]string{"ask", "due", "grant", "fail", "spend", "spend", "put back", "turn"}).
				Draw(rt, "step") {
			case "ask":
				k.asked.Add(100 * cost)
				k.update(&limit.Result{Remaining: 1_000_000})
			case "due":
				due = max(due, k.due())
			case "grant":
				if due > 0 && k.granted(&limit.Result{Remaining: 1_000_000}, due, time.Time{}, true) {
					granted, due = granted+due, 0
				}
			case "fail":
				if due > 0 {
					k.failed()
					due = 0
				}
			case "spend":
				if k.spend(cost, r) {
					spent += cost
				}
			case "put back":
				if cost = min(cost, spent); k.putBack(cost) {
					spent -= cost
				}
			case "turn":
				k.nextSpan()
			}
			if held := k.held.Load(); held < 0 || held > most {
				rt.Fatalf("%d held, at most %d", held, most)
			}
		}
		if back := k.empty(); granted != spent+back.charge.Cost || k.held.Load() != 0 {
			rt.Fatalf("%d granted, %d spent, %d given back", granted, spent, back.charge.Cost)
		}
	})
}

// What is given back counts as charged when the oldest of it was: requests use up
// what was charged first.
func TestPrefetchKeyRemembersWhenItWasCharged(t *testing.T) {
	t.Parallel()
	c, first := hotCharge(1_000_000, 1), time.Unix(1_700_000_000, 0)
	for _, s := range []struct {
		spent int64
		want  time.Time
	}{{0, first}, {10, first}, {30, first.Add(time.Second)}, {60, first.Add(time.Second)}} {
		k := newPrefetchKey(&c, 500)
		k.granted(new(limit.Result), 30, first, true)
		k.granted(new(limit.Result), 50, first.Add(time.Second), true)
		if !k.spend(s.spent, new(limit.Result)) {
			t.Fatal("nothing is held")
		}
		if got := k.empty(); !got.at.Equal(s.want) || got.charge.Cost != 80-s.spent {
			t.Errorf("%d of 30 and 50 spent: %d given back, charged at %v, want %v", s.spent, got.charge.Cost, got.at,
				s.want)
		}
	}
}

// hold charges a cost and has it held, as a grant does.
func hold(t *testing.T, l *Prefetch, c limit.Charge, cost int64) {
	t.Helper()
	k, results := l.watch(&c), make([]limit.Result, 1)
	for begun := false; !begun; k = l.watch(&c) { // unless it has just been found idle
		k.mu.Lock()
		k.refill, begun = true, !k.retired
		k.mu.Unlock()
	}
	c.Cost = cost
	ok, at, err := l.store.limiterOf(&c.Subject).TakeAt(t.Context(), time.Time{}, []limit.Charge{c}, results)
	if err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	k.granted(&results[0], cost, at, true)
}

// left is what remains of a limit.
func left(t *testing.T, c *Limiter, charge limit.Charge) int64 {
	t.Helper()
	charge.Cost = 0
	results := make([]limit.Result, 1)
	if _, err := c.Take(t.Context(), time.Time{}, []limit.Charge{charge}, results); err != nil {
		t.Fatal(err)
	}
	return results[0].Remaining
}

// However often a key is asked for, most is all that is taken of it.
func TestPrefetchTakeAtMostMost(t *testing.T) {
	t.Parallel()
	all, stop := prefetching(t, 1, 500, redistest.Start(t).Addr())
	defer stop()
	c := hotCharge(100_000, 1)
	hold(t, all[0], c, 100)
	k := all[0].watch(&c)
	k.asked.Add(1 << 40)
	k.update(&limit.Result{Remaining: 100_000})
	if n := k.due(); n != 400 {
		t.Errorf("%d more are taken of a key of which 100 are held, want 400", n)
	}
	k.failed()
}

// All keys are given back by one pipeline, on one server and on a cluster, also to
// servers that have lost the script.
func TestPrefetchGiveBackTogether(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, stop := prefetching(t, 1, 500, addrs...)
			l := all[0]
			var keys []limit.Charge
			for n := range maxCharges + 20 {
				c := hotCharge(1000, 1)
				c.Subject.Name = fmt.Sprint("topic?id=", n)
				hold(t, l, c, 50)
				keys = append(keys, c)
			}
			if err := l.store.rdb.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			stop()
			for _, c := range keys {
				if n := left(t, l.store, c); n != 1000 {
					t.Fatalf("%s: %d left of 1000", c.Subject.Name, n)
				}
			}
			if st := l.Stats(); st.Returned != 50*uint64(len(keys)) || st.Lost != 0 || st.Held != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Run ends within refundTime, however many keys are held, where Redis is frozen.
func TestPrefetchEndWithFrozenServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all, stop := prefetching(t, 1, 500, s.Addr())
	for n := range 6 {
		c := hotCharge(1000, 1)
		c.Subject.Name = fmt.Sprint("topic?id=", n)
		hold(t, all[0], c, 50)
	}
	s.Freeze()
	defer s.Thaw()
	began := time.Now()
	stop()
	// The sweep that was under way, and the last one.
	if took := time.Since(began); took > 2*refundTime+prefetchLife+time.Second {
		t.Errorf("it took %v to give up", took)
	}
	if st := all[0].Stats(); st.Lost != 300 || st.Held != 0 {
		t.Errorf("%+v", st)
	}
}

// A charge by a limit that has another rate since stays, and is counted as lost.
func TestPrefetchCountWhatAChangedRateKeeps(t *testing.T) {
	t.Parallel()
	all, stop := prefetching(t, 1, 500, redistest.Start(t).Addr())
	l, c := all[0], hotCharge(1000, 1)
	hold(t, l, c, 50)
	c.Spec.Window *= 2
	if ok, err := l.Take(t.Context(), time.Time{}, []limit.Charge{c}, make([]limit.Result, 1)); err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	stop()
	if st := l.Stats(); st.Returned != 0 || st.Lost != 50 {
		t.Errorf("%+v", st)
	}
	if n := left(t, l.store, c); n != 1000-51 {
		t.Errorf("%d left", n)
	}
}

// What a bucket has regained while its tokens were held is not given back too.
func TestPrefetchGiveBackLessWhatRanBack(t *testing.T) {
	t.Parallel()
	all, stop := prefetching(t, 1, 500, redistest.Start(t).Addr())
	l, c := all[0], hotCharge(1000, 1)
	c.Spec.Limit, c.Spec.Window = 10, time.Second
	hold(t, l, c, 5)
	keepAll(l)
	redistest.Eventually(t, "all has run back", func() bool { return left(t, l.store, c) == 1000 })
	c.Cost = 400
	began := time.Now()
	if ok, err := l.store.Take(t.Context(), time.Time{}, []limit.Charge{c}, make([]limit.Result, 1)); err != nil ||
		!ok {
		t.Fatalf("%v, %v", ok, err)
	}
	stop()
	n, most := left(t, l.store, c), 600+time.Since(began).Milliseconds()/100+1
	if n > most {
		t.Errorf("%d left, at most %d", n, most)
	}
}

// keepAll has all that is held kept until Run ends.
func keepAll(l *Prefetch) {
	for _, v := range l.keys.Range {
		k := v.(*prefetchKey)
		k.mu.Lock()
		k.newest = time.Now().Add(time.Hour)
		k.mu.Unlock()
	}
}

// Where the rest of a request fails, what was paid from memory is put back.
func TestPrefetchPutBackOnErrors(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all, stop := prefetching(t, 1, 500, s.Addr())
	defer stop()
	l, c := all[0], hotCharge(1000, 1)
	hold(t, l, c, 50)
	keepAll(l)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	beside := limit.Charge{Subject: limit.Subject{Space: "ip_fixed", Client: visitor(1)}, Cost: 1,
		Spec: limit.Spec{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Hour}}
	for range 10 {
		if _, err := l.Take(gone, time.Time{}, []limit.Charge{c, beside}, make([]limit.Result, 2)); !errors.Is(err,
			context.Canceled) {
			t.Fatalf("error %v", err)
		}
	}
	if st := l.Stats(); st.Held != 50 || st.Lost != 0 || st.Local != 0 {
		t.Errorf("%+v", st)
	}
}

// What comes back to a key that is full already goes on to Redis, and is not held.
func TestPrefetchKeyThatIsFullHoldsNoMore(t *testing.T) {
	t.Parallel()
	c := hotCharge(1_000_000, 1)
	k, r := newPrefetchKey(&c, 500), new(limit.Result)
	k.granted(r, 500, time.Time{}, true)
	if !k.spend(300, r) || !k.granted(r, 300, time.Time{}, true) || !k.putBack(300) {
		t.Fatalf("%d held", k.held.Load())
	}
	if held := k.held.Load(); held != 500 {
		t.Errorf("%d held, at most 500", held)
	}
	if idle, late := k.nextSpan(); idle || !late {
		t.Errorf("idle %v, late %v: there is something to give back", idle, late)
	}
	if back := k.empty().charge.Cost; back != 800 {
		t.Errorf("%d given back, want 800", back)
	}
}

// What a denial must change in Redis, or what does not start full, is not prefetched.
func TestBlocksAreNotPrefetched(t *testing.T) {
	t.Parallel()
	plain, block, lacks, peek := hotCharge(10, 1), hotCharge(10, 1), hotCharge(10, 1), hotCharge(10, 0)
	block.Spec.Block, block.Spec.BlockMax = time.Second, time.Second
	lacks.Spec.InitialDeficit = 5
	if !prefetchable(&plain) || prefetchable(&block) || prefetchable(&lacks) || prefetchable(&peek) {
		t.Error("only the plain bucket may be prefetched")
	}
}

// Each request after a result checks whether a refill is due, none does while one is in flight, and what is held
// is answered with the limit and the reset of the last result.
func TestPrefetchKeyTape(t *testing.T) {
	t.Parallel()
	c := hotCharge(1_000_000, 1)
	k, r := newPrefetchKey(&c, 500), new(limit.Result)
	k.asked.Add(10_000)
	k.update(&limit.Result{Remaining: 400})
	if k.due() != 100 || k.due() != 0 || k.refillBelow.Load() != math.MinInt64 {
		t.Errorf("below %d", k.refillBelow.Load())
	}
	k.failed()
	if k.refillBelow.Load() != math.MaxInt64 || k.due() != 100 {
		t.Errorf("after a failure below %d", k.refillBelow.Load())
	}
	k.granted(&limit.Result{Remaining: 400, Limit: 7, ResetAfter: time.Minute}, 100, time.Now(), true)
	if k.refillBelow.Load() != math.MaxInt64 || k.due() != 0 || k.refillBelow.Load() != 50 {
		t.Errorf("after a grant below %d", k.refillBelow.Load())
	}
	want := limit.Result{Allowed: true, Limit: 7, Remaining: 60, ResetAfter: time.Minute}
	if !k.spend(40, r) || *r != want || k.spend(61, r) {
		t.Errorf("%+v, want %+v", *r, want)
	}
	if k.due() != 0 || !k.spend(10, r) || k.due() != 0 || !k.spend(1, r) || k.due() != 51 {
		t.Errorf("with %d held", k.held.Load())
	}
	if k.granted(&limit.Result{Remaining: 3}, 51, time.Now(), false); k.held.Load() != 49 || k.due() != 0 {
		t.Errorf("after a rejection %d are held", k.held.Load())
	}
}

// How much is fetched: what lasts for a span at the rate of this or the last span, at most a quarter of what is
// left, and nothing where that is little.
func TestPrefetchWants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ asked, before, left, want int64 }{
		{99, 0, 1000, 0}, {100, 0, 1000, 20}, {0, 100, 1000, 20}, {100, 1000, 1000, 200}, {1000, 100, 1000, 200},
		{100, 0, 32, 8}, {100, 0, 31, 0}, {1000, 0, 100, 25}, {9999, 0, 10_000, 500},
	} {
		charge := hotCharge(1, 1)
		k := newPrefetchKey(&charge, 500)
		k.before, k.left = c.before, c.left
		k.asked.Store(c.asked)
		if got := k.want(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// What is held for prefetchLife without a grant is refunded, and a key of two idle spans ends.
func TestPrefetchKeySpans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := hotCharge(1, 1)
		k := newPrefetchKey(&c, 500)
		k.asked.Add(1)
		k.granted(new(limit.Result), 10, time.Now(), true)
		for i, late := range []bool{false, true, true} {
			if idle, got := k.nextSpan(); idle || got != late {
				t.Errorf("span %d: idle %v, late %v", i, idle, got)
			}
			time.Sleep(prefetchLife)
		}
		k.empty()
		if idle, late := k.nextSpan(); !idle || late || k.putBack(1) {
			t.Errorf("empty: idle %v, late %v", idle, late)
		}
		for name, busy := range map[string]func(k *prefetchKey){
			"requests": func(k *prefetchKey) { k.asked.Add(1) }, "before": func(k *prefetchKey) { k.before = 1 },
			"surplus": func(k *prefetchKey) { k.surplus = 1 }, "refill": func(k *prefetchKey) { k.refill = true },
		} {
			k := newPrefetchKey(&c, 500)
			busy(k)
			if idle, late := k.nextSpan(); idle || late != (name == "surplus") {
				t.Errorf("with %s: idle %v, late %v", name, idle, late)
			}
		}
	})
}

// Only the bucket of a key is prefetched, and only where its subject is charged once.
func TestPrefetchableCharge(t *testing.T) {
	t.Parallel()
	bucket, window, other := hotCharge(5, 1), hotCharge(5, 1), hotCharge(5, 1)
	window.Spec.Algorithm, window.Subject.Name = limit.FixedWindow, "window"
	other.Subject.Name = "other"
	free, client := bucket, bucket
	free.Cost, client.Subject.Client = 0, visitor(1)
	blocked, again := bucket, window
	blocked.Spec.Block, again.Subject = time.Second, bucket.Subject
	for i, c := range []struct {
		charges []limit.Charge
		want    int
	}{
		{nil, -1}, {[]limit.Charge{bucket}, 0}, {[]limit.Charge{window}, -1}, {[]limit.Charge{window, bucket}, 1},
		{[]limit.Charge{bucket, other}, 0}, {[]limit.Charge{bucket, again}, -1}, {[]limit.Charge{again, bucket}, -1},
		{[]limit.Charge{free}, -1}, {[]limit.Charge{client}, -1}, {[]limit.Charge{blocked}, -1},
	} {
		if got := prefetchableIndex(c.charges); got != c.want {
			t.Errorf("case %d: %d, want %d", i, got, c.want)
		}
	}
}
