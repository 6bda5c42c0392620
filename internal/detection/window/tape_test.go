package window

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

var update = flag.Bool("update", false, "write testdata/tape.txt")

// hashOf returns the same hash in each run.
func hashOf(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key)) // it never fails
	return h.Sum64() * 0x9e3779b97f4a7c15
}

// tape records the content of a Counter at the end of each second.
type tape struct {
	*Counter
	out *bytes.Buffer
	n   uint64 // of keys that come once
	sum int64  // of counts that left
}

func (t *tape) add(key string, second, n int64) {
	if got := t.Add(hashOf(key), key, second, n); got.Place < 0 && got != (Added{Place: -1}) {
		panic(fmt.Sprintf("%+v is no answer to a key that is held back", got))
	}
}

// flood adds keys that come once, in the current second or in another one.
func (t *tape) flood(keys int, weights []int64, beside int64) {
	for i := range keys {
		t.n++
		t.add(fmt.Sprint("once", t.n), t.clock.now+beside, weights[i%len(weights)])
		if i%4 == 0 {
			t.add(fmt.Sprint("often", i%40), t.clock.now, 2)
		}
	}
}

func (t *tape) second(now int64) {
	t.Advance(now, func(_ int, n int64) { t.sum += n })
	t.record("begins")
}

func (t *tape) record(what string) {
	st, f := t.Stats(), &t.filter
	fmt.Fprintf(t.out,
		"%4d %s: %+v left %d crossed %d pairs %d idle %d size %d short %t filter %d %d %d %d of %d marks %d\n",
		t.clock.now, what, st, t.sum, len(t.crossed), t.pairs, t.idle, t.table.Size(), t.overCapacity, f.unit, f.limit,
		f.most,
		f.usedCells, len(f.cells), cap(t.scratch))
	for i := range t.watches {
		if t.watches[i].place >= 0 {
			fmt.Fprintf(t.out, "     watch %d: %+v\n", i, t.Read(i))
		}
	}
}

// Many small rules choose the keys that a flood gives up, the memory that is taken and released, and when the filter
// opens. The tape holds their joint result; -update records it again, also for a Go whose slices grow differently.
func TestCounter_FloodTape(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	for _, cfg := range []Config{
		{Window: 3, Lateness: 2, Future: 2, Counters: 2000}, {Window: 1, Counters: 50}, {Window: 5, Counters: 20_000},
	} {
		fmt.Fprintf(&out, "%+v\n", cfg)
		c := tape{Counter: New(cfg, 1000), out: &out}
		c.SetLimit(700)
		c.WatchKey(hashOf("often8"), "often8", 900)
		c.WatchKey(hashOf("quiet"), "quiet", 900)
		for i, step := range []struct {
			passes int64
			keys   int
			weight []int64
			beside int64
		}{
			{0, 300, []int64{1}, 0}, {1, 700, []int64{1, 2}, 0}, {1, 3000, []int64{1}, 0}, {1, 9000, []int64{1, 1, 1,
				30}, 0},
			{1, 9000, []int64{1}, 0}, {1, 5000, []int64{100, 150, 90}, 0}, {1, 5000, []int64{1, 5000}, 0}, {1, 400,
				[]int64{1}, 0},
			{1, 900, []int64{1}, 1}, {1, 900, []int64{2}, -1}, {1, 2500, []int64{1}, 2}, {1, 100, []int64{7}, 0}, {1,
				30, []int64{1}, 0},
			{1, 0, nil, 0}, {1, 4000, []int64{3}, 0}, {2, 10, []int64{1}, 0}, {1, 10, []int64{1}, 0}, {1, 10,
				[]int64{1}, 0},
			{1, 1500, []int64{1, 1, 9}, 0}, {3, 3, []int64{1}, 0}, {4, 40, []int64{600}, 0}, {1, 1, []int64{1}, 0}, {1,
				1, []int64{1}, 0},
			{50, 20, []int64{1}, 0},
		} {
			c.second(c.clock.now + step.passes)
			c.flood(step.keys, step.weight, step.beside)
			if i == 6 {
				c.Forget(func(key string) bool { return len(key)%2 == 0 })
			}
			if i == 9 {
				c.Unwatch(1)
			}
			if step.keys > 0 {
				c.record("is full")
			}
		}
	}
	const file = "testdata/tape.txt"
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	is, was := bytes.Split(out.Bytes(), []byte("\n")), bytes.Split(text, []byte("\n"))
	for i := range min(len(is), len(was)) {
		if !bytes.Equal(is[i], was[i]) {
			t.Fatalf("line %d, -update if the change is meant:\n got %s\nwant %s", i+1, is[i], was[i])
		}
	}
	if len(is) != len(was) {
		t.Errorf("%d lines, want %d; -update, if the change is meant", len(is), len(was))
	}
}

// Fields outside their domain become the nearest value in it.
func TestConfig_IsInItsDomain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want Config }{
		{Config{}, Config{Window: 1, Counters: 131_072}},
		{Config{Window: -1, Lateness: -1, Future: -1, Counters: -1}, Config{Window: 1, Counters: 131_072}},
		{Config{Window: 3, Lateness: 4, Future: 1, Counters: 1}, Config{Window: 3, Lateness: 3, Future: 1,
			Counters: 1}},
		{Config{Window: 65537, Lateness: 65538, Future: 65537, Counters: 1<<23 + 1},
			Config{Window: 65536, Lateness: 65536, Future: 65536, Counters: 1 << 23}},
	} {
		if got := c.in.clampFields(); got != c.want {
			t.Errorf("%+v: %+v", c.in, got)
		}
	}
}

// Each second of the ring has a slot of its own, found from any second of it.
func TestClock_SlotsOfSeconds(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Window: 1}, {Window: 3}, {Window: 1, Future: 2}, {Window: 4, Future: 3}} {
		for now := int64(-15); now < 15; now++ {
			c := newClock(cfg, now)
			size := cfg.Window + cfg.Future
			if c.oldestSecond() != now-cfg.Window+1 || c.newestSecond() != now+cfg.Future || c.size != size {
				t.Fatalf("%+v at %d: %d to %d", cfg, now, c.oldestSecond(), c.newestSecond())
			}
			for s := c.oldestSecond(); s <= c.newestSecond(); s++ {
				if want := (s%size + size) % size; c.slotOf(s) != want {
					t.Fatalf("%+v at %d: second %d in slot %d, want %d", cfg, now, s, c.slotOf(s), want)
				}
			}
		}
	}
}

// Counts and sums have a maximum.
func TestCounter_BoundsCountsAndSums(t *testing.T) {
	t.Parallel()
	b := newBox(Config{Window: 2, Counters: 10}, 0)
	if b.add("k", 0, hottype.MaxCount+1).Status != Bad || b.Limit() != math.MaxInt64 {
		t.Error("a count beyond the greatest was taken")
	}
	sum := int64(0)
	for sum+hottype.MaxCount <= 1<<45 {
		if got := b.add("k", 0, hottype.MaxCount); got.Status != OK {
			t.Fatalf("%+v at %d", got, sum)
		}
		sum += hottype.MaxCount
	}
	if rest := 1<<45 - sum; b.add("k", 0, rest+1).Status != Bad || rest > 0 && b.add("k", 0, rest).Status != OK ||
		b.add("k", 0, 1).Status != Bad || b.sum("k") != 1<<45 {
		t.Errorf("%d", b.sum("k"))
	}
}

// A watch has exact values: its number, and its sums with losses and without.
func TestWatchTape(t *testing.T) {
	t.Parallel()
	b := newBox(Config{Window: 2, Counters: 100}, 10)
	b.SetLimit(5)
	place := b.add("a", 10, 3).Place
	if b.WatchOf(place) != -1 {
		t.Error("watched from the beginning")
	}
	a := b.WatchKey(b.Hash(place), "a", 6)
	other := b.WatchKey(2, "b", 4)
	if a != 0 || other != 1 || b.WatchOf(place) != 0 || b.Stats().Keys != 2 {
		t.Errorf("watches %d and %d, %d keys", a, other, b.Stats().Keys)
	}
	for _, c := range []struct {
		n    int64
		want bool
	}{{2, false}, {1, true}, {1, true}} {
		if got := b.add("a", 10, c.n).Crossed; got != c.want {
			t.Errorf("%d more: %v", c.n, got)
		}
	}
	b.Advance(11, nil)
	b.add("a", 11, 4)
	b.Advance(12, nil)
	if got := b.Read(a); got != (Watched{4, 4, 7, 11}) || b.SumOf(a) != 4 {
		t.Errorf("%+v", got)
	}
	b.Unwatch(other)
	if b.watches[other].place != -1 || b.Stats().Keys != 1 || b.WatchKey(3, "c", 1) != other || b.Stats().Keys != 2 {
		t.Errorf("%+v, %d keys", b.watches, b.Stats().Keys)
	}
	for counters, most := range map[int]int{100: 1 << 16, 10_000: 160_000} {
		b := newBox(Config{Window: 2, Counters: counters}, 10)
		if b.WatchKey(4, string(make([]byte, most+1)), 1) != -1 || b.WatchKey(4, string(make([]byte, most)), 1) != 0 {
			t.Errorf("%d counters: a key of other than %d bytes is the longest", counters, most)
		}
	}
}
