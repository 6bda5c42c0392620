package window

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam"
)

// exact is the same by brute force: every count that was let in.
type exact struct {
	cfg    Config
	now    int64
	counts map[hotparam.Key]map[int64]int64
}

func newExact(cfg Config, now int64) *exact {
	return &exact{cfg: cfg, now: now, counts: map[hotparam.Key]map[int64]int64{}}
}

func (e *exact) sum(key hotparam.Key) (n int64) {
	for s := e.now - e.cfg.Window + 1; s <= e.now; s++ {
		n += e.counts[key][s]
	}
	return n
}

func (e *exact) add(key hotparam.Key, second, n int64) Added {
	switch {
	case n <= 0 || n > MaxCount:
		return Added{Status: Bad}
	case second <= e.now-e.cfg.Window || second < e.now-e.cfg.Lateness:
		return Added{Status: Late}
	case second > e.now+e.cfg.Future:
		return Added{Status: Future}
	}
	if e.counts[key] == nil {
		e.counts[key] = map[int64]int64{}
	}
	first := e.counts[key][second] == 0
	e.counts[key][second] += n
	return Added{First: first, Sum: e.sum(key)}
}

func TestCounterIsTheBruteForceCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Window:   rapid.Int64Range(1, 12).Draw(t, "window"),
			Lateness: rapid.Int64Range(0, 15).Draw(t, "lateness"),
			Future:   rapid.Int64Range(0, 3).Draw(t, "future"),
			MaxKeys:  rapid.SampledFrom([]int{400, 100_000}).Draw(t, "max"),
		}
		now := rapid.Int64Range(-20, 2_000_000_000).Draw(t, "start")
		c, model := New(cfg, now), newExact(cfg, now)
		keys := rapid.IntRange(1, 300).Draw(t, "keys")
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				now += rapid.SampledFrom([]int64{-3, 0, 1, 1, 1, 2, 5, 13, 40}).Draw(t, "passes")
				c.Advance(now)
				now = max(now, model.now)
				model.now = now
			}
			key := hotparam.Key(fmt.Sprint("k", rapid.IntRange(0, keys-1).Draw(t, "key")))
			second := now + rapid.Int64Range(-16, 4).Draw(t, "second")
			n := rapid.SampledFrom([]int64{-1, 0, 1, 1, 1, 2, 700, MaxCount, MaxCount + 1}).Draw(t, "n")
			if got, want := c.Add(key, second, n), model.add(key, second, n); got != want {
				t.Fatalf("Add(%s, %d, %d) at %d = %+v, want %+v", key, second, n, now, got, want)
			}
		}
		check(t, c, model)
	})
}

func check(t *rapid.T, c *Counter, model *exact) {
	seen := map[hotparam.Key]bool{}
	c.Each(func(key hotparam.Key, sum int64) {
		if want := model.sum(key); sum != want {
			t.Fatalf("Each gives %s = %d, want %d", key, sum, want)
		}
		seen[key] = true
	})
	if len(seen) != c.Len() {
		t.Fatalf("Len is %d, Each gave %d", c.Len(), len(seen))
	}
	for key := range model.counts {
		if got, want := c.Sum(key), model.sum(key); got != want || want > 0 && !seen[key] {
			t.Fatalf("Sum(%s) = %d, want %d, seen %v", key, got, want, seen[key])
		}
	}
}

func TestCounterTape(t *testing.T) {
	t.Parallel()
	c := New(Config{Window: 3, Lateness: 10, Future: 2, MaxKeys: 2}, 100)
	for i, step := range []struct {
		now    int64
		key    hotparam.Key
		second int64
		n      int64
		want   Added
	}{
		{100, "a", 100, 5, Added{OK, true, 5}},
		{100, "a", 98, 1, Added{OK, true, 6}},       // late, inside the window
		{100, "a", 97, 1, Added{Status: Late}},      // just outside it
		{100, "a", 102, 7, Added{OK, true, 6}},      // early: not in the sum yet
		{100, "a", 103, 1, Added{Status: Future}},   // too early
		{100, "b", 100, 1, Added{OK, true, 1}},      //
		{100, "c", 100, 1, Added{Status: Full}},     // the third key
		{100, "c", 90, 1, Added{Status: Late}},      // late before full
		{100, "a", 100, 0, Added{Status: Bad}},      //
		{101, "a", 101, 1, Added{OK, true, 6}},      // 98 left the window
		{102, "a", 102, 1, Added{OK, false, 14}},    // the early ones are due
		{99, "a", 102, 1, Added{OK, false, 15}},     // the clock stepped back: no change
		{103, "a", 103, 1, Added{OK, true, 11}},     // 100 left
		{104, "c", 104, 1, Added{OK, true, 1}},      // b was swept: room for c
		{200, "a", 200, 1, Added{OK, true, 1}},      // after a long silence
		{200, "a", 200, maxSum, Added{Status: Bad}}, // beyond MaxCount
	} {
		c.Advance(step.now)
		if got := c.Add(step.key, step.second, step.n); got != step.want {
			t.Errorf("step %d: %+v = %+v", i, step, got)
		}
	}
}

func TestSumsCannotOverflow(t *testing.T) {
	t.Parallel()
	for _, seconds := range [][]int64{{0}, {0, 1}, {1, 2}} {
		c := New(Config{Window: 2, Future: 2, MaxKeys: 1}, 0)
		refused := 0
		for i := range 4 * maxSum / MaxCount {
			if c.Add("k", seconds[i%len(seconds)], MaxCount).Status == Bad {
				refused++
			}
		}
		c.Advance(2)
		if sum := c.Sum("k"); refused == 0 || sum < 0 || sum > 3*maxSum {
			t.Errorf("%v: sum %d, refused %d", seconds, sum, refused)
		}
	}
}

func TestRingsAreBounded(t *testing.T) {
	t.Parallel()
	const window = 640 // ten times the slots that each key may have
	c := New(Config{Window: window, Lateness: window, MaxKeys: 100}, 0)
	var ok, full int
	for i := range 100 {
		key := hotparam.Key(fmt.Sprint(i))
		c.Add(key, 0, 1)
		switch a := c.Add(key, -1, 1); {
		case a == Added{First: true, Sum: 2}:
			ok++
		case a == Added{Status: Full} && c.Sum(key) == 1: // refused, and still right
			full++
		}
	}
	if ok != 10 || full != 90 {
		t.Errorf("%d keys got a ring, %d were refused, want 10 and 90", ok, full)
	}
	c.Advance(2 * window)
	c.Advance(3 * window)
	if a := c.Add("0", 3*window-1, 1); a.Status != OK || c.spare != 10 {
		t.Errorf("rings did not come back: %+v, spare %d", a, c.spare)
	}
}

// TestFloodGivesItsMemoryBack looks at the lengths of what is held, not at the
// runtime: they must be back where they were one and a half windows after the
// last count of the flood, whatever calls come.
func TestFloodGivesItsMemoryBack(t *testing.T) {
	t.Parallel()
	const window, flood = 4, 200_000
	for name, busy := range map[string]bool{"silence": false, "traffic": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(Config{Window: window, Lateness: window, MaxKeys: 1_000_000}, 0)
			for i := range flood {
				key := hotparam.Key(fmt.Sprint("flood", i))
				c.Add(key, 0, 1)
				if i%4 == 0 {
					c.Add(key, -1, 1) // with a ring
				}
			}
			if c.Len() != flood || slab(c) < flood {
				t.Fatalf("holds %d keys in %d", c.Len(), slab(c))
			}
			for s := int64(1); s <= window+window/2+1; s++ {
				c.Advance(s)
				for i := 0; busy && i < 100; i++ {
					c.Add("steady", s, 1)
				}
			}
			if c.Len() > 1 || slab(c) > 64 {
				t.Errorf("still holds %d keys in %d cells", c.Len(), slab(c))
			}
		})
	}
}

// slab is how many cells of any kind are allocated.
func slab(c *Counter) (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		n += cap(s.keys) + cap(s.rings) + cap(s.index) + cap(s.free)
	}
	return n
}

func TestAddAllocatesNothingForAKnownKey(t *testing.T) {
	c := New(Config{Window: 5, Lateness: 5, Future: 2, MaxKeys: 1000}, 0)
	c.Add("k", 0, 1)
	c.Add("k", 1, 1)
	second := int64(1)
	if n := testing.AllocsPerRun(100, func() {
		second++
		c.Advance(second)
		c.Add("k", second, 3)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAddKnown(b *testing.B) {
	for _, keys := range []int{1, 1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			b.ReportAllocs()
			names := make([]hotparam.Key, keys)
			c := New(Config{Window: 5, Lateness: 5, Future: 2, MaxKeys: 1_000_000}, 0)
			for i := range names {
				names[i] = hotparam.Key(fmt.Sprint("topic?id=", i))
				c.Add(names[i], 0, 1)
				c.Add(names[i], 1, 1)
			}
			i := 0
			for b.Loop() {
				c.Add(names[i], 1, 7)
				if i++; i == len(names) {
					i = 0
				}
			}
		})
	}
}

// BenchmarkAddUnique is a flood of keys that are forgotten before they come
// again, 200,000 of them in a second.
func BenchmarkAddUnique(b *testing.B) {
	b.ReportAllocs()
	names := make([]hotparam.Key, 2_000_000)
	for i := range names {
		names[i] = hotparam.Key(fmt.Sprint("topic?id=", i))
	}
	c := New(Config{Window: 5, Lateness: 5, Future: 2, MaxKeys: 2_000_000}, 0)
	i, second := 0, int64(0)
	for b.Loop() {
		c.Add(names[i%len(names)], second, 1)
		if i++; i%200_000 == 0 {
			second++
			c.Advance(second)
		}
	}
	b.ReportMetric(float64(c.Len()), "keys")
}
