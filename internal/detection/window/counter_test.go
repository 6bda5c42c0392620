package window

import (
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"

	"pgregory.net/rapid"
)

// box is a Counter with a hash, like the Counters of its users.
type box struct {
	*Counter
	seed maphash.Seed
}

func newBox(cfg Config, now int64) *box {
	c := New(cfg, now)
	return &box{c, maphash.MakeSeed()}
}

func (b *box) add(key string, second, n int64) Added {
	return b.Add(maphash.String(b.seed, key), key, second, n)
}

func (b *box) sum(key string) int64 {
	lower, _ := b.Sum(maphash.String(b.seed, key), key)
	return lower
}

// exact is the same by brute force: it keeps every count that was accepted.
type exact struct {
	cfg    Config
	now    int64
	counts map[string]map[int64]int64
}

func newExact(cfg Config, now int64) *exact {
	return &exact{cfg: cfg, now: now, counts: map[string]map[int64]int64{}}
}

func (e *exact) sum(key string) int64 { return e.sumAt(key, e.now) }

func (e *exact) sumAt(key string, now int64) (n int64) {
	for s := now - e.cfg.Window + 1; s <= now; s++ {
		n += e.counts[key][s]
	}
	return n
}

func (e *exact) add(key string, second, n int64) Status {
	switch {
	case n <= 0 || n > hottype.MaxCount:
		return Bad
	case second < e.now-e.cfg.Window || second < e.now-e.cfg.Lateness:
		return Late
	case second > e.now+e.cfg.Future:
		return Future
	}
	if e.counts[key] == nil {
		e.counts[key] = map[int64]int64{}
	}
	e.counts[key][second] += n
	return OK
}

func drawConfig(t *rapid.T, counters ...int) Config {
	return Config{
		Window:   rapid.Int64Range(1, 12).Draw(t, "window"),
		Lateness: rapid.Int64Range(0, 15).Draw(t, "lateness"),
		Future:   rapid.Int64Range(0, 3).Draw(t, "future"),
		Counters: rapid.SampledFrom(counters).Draw(t, "counters"),
	}
}

// drive applies the same steps to a Counter and to the exact count, and calls check after some of them.
func drive(t *rapid.T, cfg Config, check func(b *box, e *exact)) {
	now := rapid.Int64Range(-20, 2_000_000_000).Draw(t, "start")
	b, e := newBox(cfg, now), newExact(cfg, now)
	keys := rapid.IntRange(1, 300).Draw(t, "keys")
	for i := range rapid.IntRange(1, 600).Draw(t, "steps") {
		if rapid.IntRange(0, 19).Draw(t, "what") == 0 {
			now = e.now + rapid.SampledFrom([]int64{-3, 0, 1, 1, 1, 2, 5, 13, 40}).Draw(t, "passes")
			b.Advance(now, nil)
			e.now = max(now, e.now)
		}
		key := fmt.Sprint("k", rapid.IntRange(0, keys-1).Draw(t, "key"))
		second := e.now + rapid.SampledFrom([]int64{0, 0, 0, 0, -1, -2, -7, 1, 2, 4}).Draw(t, "second")
		n := rapid.SampledFrom([]int64{-1, 0, 1, 1, 1, 2, 7, 700}).Draw(t, "n")
		added, want := b.add(key, second, n), e.add(key, second, n)
		if added.Status != want {
			t.Fatalf("Add(%s, %d, %d) at %d = %v, want %v", key, second, n, e.now, added.Status, want)
		}
		if before := e.sumAt(key, e.now-1); added.Before > before ||
			b.Error() == 0 && cfg.Counters >= 1000 && want == OK && second < e.now && added.Before != before {
			t.Fatalf("Add(%s, %d, %d) at %d: %d in the window before, want %d", key, second, n, e.now, added.Before, before)
		}
		if i%50 == 0 {
			check(b, e)
		}
	}
	check(b, e)
}

func TestExactUntilCountersAreTaken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t, 1000, 100_000)
		drive(t, cfg, func(b *box, e *exact) {
			if b.Error() != 0 {
				t.Fatalf("error %d", b.Error())
			}
			seen := map[string]bool{}
			b.Each(func(place int, sum int64) {
				key := b.Key(place)
				if want := e.sum(key); sum != want || seen[key] {
					t.Fatalf("Each gives %s = %d, want %d", key, sum, want)
				}
				seen[key] = true
			})
			for key := range e.counts {
				if got, want := b.sum(key), e.sum(key); got != want || (want > 0) != seen[key] {
					t.Fatalf("%s = %d, want %d, seen %v", key, got, want, seen[key])
				}
			}
		})
	})
}

// The true count is between the bounds, and they differ by at most the stated error. The oracle is an exact count.
func TestBoundsHoldTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t, 1, 2, 10, 40)
		threshold := rapid.SampledFrom([]int64{5, 50, 500}).Draw(t, "threshold")
		drive(t, cfg, func(b *box, e *exact) {
			if b.pairs > cfg.Counters || b.table.Len() > b.table.Max() {
				t.Fatalf("%d counters, %d keys", b.pairs, b.table.Len())
			}
			for key := range e.counts {
				lower, upper := b.Sum(maphash.String(b.seed, key), key)
				truth, err := e.sum(key), b.Error()
				switch {
				case lower > truth || truth > upper || upper-lower > err:
					t.Fatalf("%s is %d, held to be %d to %d, error %d", key, truth, lower, upper, err)
				case truth >= threshold+err && lower < threshold:
					t.Fatalf("%s with %d was not found at %d with error %d", key, truth, threshold, err)
				}
			}
			check(t, b)
		})
	})
}

// check compares the values that the Counter keeps twice.
func check(t *rapid.T, b *box) {
	pairs, idle := 0, 0
	of := make([]int32, b.table.Len())
	for i := range b.slots {
		pairs += len(b.slots[i].pairs)
		for _, p := range b.slots[i].pairs {
			of[p.place]++
			if (p.n == 0) != (int64(i) == b.clock.pos) {
				t.Fatalf("slot %d of now %d has a pair with %d", i, b.clock.pos, p.n)
			}
		}
	}
	for i := range b.table.Len() {
		if v := b.table.At(i); v.pairs != of[i] {
			t.Fatalf("%s has %d pairs, not %d", b.Key(i), of[i], v.pairs)
		} else if v.pairs == 0 && v.watch == 0 {
			idle++
		}
	}
	if pairs != b.pairs || idle != b.idle {
		t.Fatalf("%d pairs, held to be %d; %d idle keys, held to be %d", pairs, b.pairs, idle, b.idle)
	}
}

// A watched key is always held, its bounds hold the true count, and after one window without losses they are equal.
func TestWatchesHoldTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t, 3, 20, 1000)
		watched, since := map[string]int{}, map[string]int64{}
		drive(t, cfg, func(b *box, e *exact) {
			for key, id := range watched {
				w := b.Read(id)
				if truth := e.sum(key); w.Sum > truth || truth > w.Upper || w.Sum != b.SumOf(id) {
					t.Fatalf("%s is %d, watched as %+v", key, truth, w)
				}
				if cfg.Counters == 1000 && e.now > since[key] && w.Expired != e.counts[key][e.now-cfg.Window] {
					t.Fatalf("%s left %d, not %d", key, w.Expired, e.counts[key][e.now-cfg.Window])
				}
			}
			if len(watched) > 3 {
				for key, id := range watched {
					b.Unwatch(id)
					delete(watched, key)
				}
			}
			b.Each(func(place int, _ int64) {
				if key := b.Key(place); len(watched) < 5 && b.WatchOf(place) < 0 {
					watched[key], since[key] = b.Watch(place, -1), e.now
				}
			})
			check(t, b)
		})
	})
}

func TestCounterTape(t *testing.T) {
	t.Parallel()
	b := newBox(Config{Window: 3, Lateness: 10, Future: 2, Counters: 100}, 100)
	b.SetLimit(12)
	for i, step := range []struct {
		now    int64
		key    string
		second int64
		n      int64
		status Status
		sum    int64
		risen  bool
	}{
		{100, "a", 100, 5, OK, 5, false},
		{100, "a", 98, 1, OK, 6, false},      // late, inside the window
		{100, "a", 97, 1, OK, 6, false},      // only inside the window before
		{100, "a", 96, 1, Late, 0, false},    // outside both
		{100, "a", 102, 7, OK, 6, false},     // early: not in the sum yet
		{100, "a", 103, 1, Future, 0, false}, // too early
		{100, "b", 100, 1, OK, 1, false},
		{100, "a", 100, 0, Bad, 0, false},
		{101, "a", 101, 1, OK, 6, false},  // 98 left the window
		{102, "a", 102, 1, OK, 14, true},  // the early counts are due
		{99, "a", 102, 1, OK, 15, true},   // the clock stepped back: no change
		{103, "a", 103, 1, OK, 11, false}, // 100 left
		{200, "a", 200, 1, OK, 1, false},  // after a long silence
		{200, "a", 200, maxSum, Bad, 0, false},
	} {
		b.Advance(step.now, nil)
		got := b.add(step.key, step.second, step.n)
		if got.Status != step.status || got.Sum != step.sum || got.Crossed != step.risen {
			t.Errorf("step %d: %+v = %+v", i, step, got)
		}
	}
}

func TestFutureCountsCrossLimitOnAdvance(t *testing.T) {
	t.Parallel()
	b := newBox(Config{Window: 3, Future: 2, Counters: 100}, 0)
	b.SetLimit(5)
	b.add("a", 1, 4)
	b.add("b", 1, 3)
	b.add("b", 1, 3)
	b.Advance(1, nil)
	if len(b.Crossed()) != 1 || b.Key(b.Crossed()[0]) != "b" {
		t.Fatalf("%v", b.Crossed())
	}
	id := b.Watch(b.Crossed()[0], 20)
	if b.add("b", 1, 1).Crossed || !b.add("b", 1, 13).Crossed || b.add("a", 1, 0).Crossed {
		t.Error("a threshold is not told once it is reached, or before")
	}
	b.SetThreshold(id, -1)
	if b.add("b", 1, 100).Crossed {
		t.Error("told after that")
	}
}

func TestSumsCannotOverflow(t *testing.T) {
	t.Parallel()
	for _, seconds := range [][]int64{{0}, {0, 1}, {1, 2}} {
		b := newBox(Config{Window: 2, Future: 2, Counters: 10}, 0)
		for i := range 4 * maxSum / hottype.MaxCount {
			b.add("k", seconds[i%len(seconds)], hottype.MaxCount)
		}
		b.Advance(2, nil)
		if sum := b.sum("k"); sum < 0 {
			t.Errorf("%v: sum %d", seconds, sum)
		}
	}
}

// TestFloodGivesItsMemoryBack checks the Counter's own numbers and not the runtime's: the memory stays under its bound
// in the flood, the error is within the promise of the algorithm, and one window after the last count all memory of the
// flood is released.
func TestFloodGivesItsMemoryBack(t *testing.T) {
	t.Parallel()
	const window, perSecond, counters = 5, 100_000, 20_000
	b := newBox(Config{Window: window, Lateness: window, Counters: counters}, 0)
	key := make([]byte, 0, 32)
	for s := range int64(10) {
		b.Advance(s, nil)
		for i := range perSecond {
			key = fmt.Appendf(key[:0], "flood%d-%d", s, i)
			b.add(string(key), s, 1)
			if i%1000 == 0 {
				b.add("needle", s, 1)
			}
		}
		if st := b.Stats(); st.Bytes > 160*counters || st.Error > 2.2*window*perSecond*window/counters {
			t.Fatalf("in the flood: %+v", st)
		}
	}
	lower, upper := b.Sum(maphash.String(b.seed, "needle"), "needle")
	if st := b.Stats(); lower > 500 || upper < 500 || upper-lower > 100 || st.Evicted == 0 {
		t.Errorf("needle is %d to %d of 500; %+v", lower, upper, st)
	}
	for s := int64(10); s < 10+window; s++ {
		b.Advance(s, nil)
		b.add("steady", s, 1)
	}
	if st := b.Stats(); st.Keys != 1 || st.Error != 0 || st.Bytes > 64<<10 {
		t.Errorf("one window later: %+v", st)
	}
}

func TestLongKeysAreBounded(t *testing.T) {
	t.Parallel()
	b := newBox(Config{Window: 2, Counters: 1000}, 0)
	long := make([]byte, 30_000)
	for i := range 1000 {
		copy(long, fmt.Sprint(i))
		if st := b.add(string(long), 0, 1).Status; st != OK {
			t.Fatalf("key %d: %v", i, st)
		}
	}
	if st := b.Stats(); st.Bytes > 1<<20 || st.Error == 0 {
		t.Errorf("%+v", st)
	}
	if st := b.add(string(make([]byte, 100_000)), 0, 1).Status; st != Full {
		t.Errorf("a key of 100 kB: %v", st)
	}
}

func TestCounter_Forget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Window: 4, Lateness: 3, Future: 2, Counters: 1000}
		b, e := newBox(cfg, 100), newExact(cfg, 100)
		odd := func(key string) bool { return key[0]%2 == 1 }
		for range rapid.IntRange(0, 60).Draw(t, "adds") {
			key := string([]byte{rapid.ByteRange('a', 'j').Draw(t, "key")})
			second := rapid.Int64Range(97, 102).Draw(t, "second")
			b.add(key, second, 1)
			if !odd(key) {
				e.add(key, second, 1)
			}
		}
		b.Forget(odd)
		check(t, b)
		for e.now < 108 {
			e.now++
			b.Advance(e.now, nil)
			for c := byte('a'); c <= 'j'; c++ {
				if got, want := b.sum(string(c)), e.sum(string(c)); got != want {
					t.Fatalf("%c at %d: %d, want %d", c, e.now, got, want)
				}
			}
		}
	})
}

func TestAddAllocatesNothingInSteadyTraffic(t *testing.T) {
	b := newBox(Config{Window: 5, Lateness: 5, Future: 2, Counters: 10_000}, 0)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	second := int64(0)
	run := func() {
		second++
		b.Advance(second, nil)
		for i, k := range keys {
			b.add(k, second-int64(i%2), 3)
		}
	}
	for range 20 {
		run()
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAddKnown(b *testing.B) {
	for _, keys := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			b.ReportAllocs()
			names := make([]string, keys)
			c := newBox(Config{Window: 5, Lateness: 5, Future: 2, Counters: 1_000_000}, 0)
			for i := range names {
				names[i] = fmt.Sprint("topic?id=", i)
				c.add(names[i], 0, 1)
			}
			i := 0
			for b.Loop() {
				c.add(names[i], 0, 7)
				if i++; i == len(names) {
					i = 0
				}
			}
		})
	}
}

// BenchmarkAddUnique adds a flood of keys that are forgotten before they come again, 200,000 of them in a second.
func BenchmarkAddUnique(b *testing.B) {
	b.ReportAllocs()
	names := make([]string, 2_000_000)
	for i := range names {
		names[i] = fmt.Sprint("topic?id=", i)
	}
	c := newBox(Config{Window: 5, Lateness: 5, Future: 2}, 0)
	i, second := 0, int64(0)
	for b.Loop() {
		c.add(names[i%len(names)], second, 1)
		if i++; i%200_000 == 0 {
			second++
			c.Advance(second, nil)
		}
	}
	b.ReportMetric(float64(c.Error()), "error")
}
