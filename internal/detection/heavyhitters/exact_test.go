package heavyhitters

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// The bounds of a table are the requested ones within the limits of its index.
func TestTable_BoundsItsSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ keys, bytes, max, maxBytes int }{
		{10, 100, 10, 100}, {0, 0, 1, 1}, {-1, -1, 1, 1}, {1 << 24, 1 << 32, 1<<24 - 1, 1<<32 - 1},
		{1<<24 - 1, 1<<32 - 1, 1<<24 - 1, 1<<32 - 1}, {1, 1, 1, 1},
	} {
		if table := NewTable[int](c.keys, c.bytes); table.Max() != c.max || table.maxBytes != c.maxBytes {
			t.Errorf("%+v: %d keys, %d bytes", c, table.Max(), table.maxBytes)
		}
	}
	table := NewTable[int](3, 10)
	if table.Find(1, "abc") != -1 || table.Warm([]uint64{1}) != 0 {
		t.Error("an empty table holds a key")
	}
	for _, c := range []struct {
		key  string
		want int
	}{{"abcd", 0}, {"abcdefg", -1}, {"abcdef", 1}, {"x", -1}, {"", 2}, {"", -1}} {
		if got := table.Insert(1, c.key); got != c.want {
			t.Errorf("%q goes to %d, want %d", c.key, got, c.want)
		}
	}
	if table.Find(1, "x") != -1 || table.Find(1, "abcdef") != 1 {
		t.Error("not what was inserted")
	}
}

// A table takes memory as it grows, and releases memory when keys are dropped.
func TestTable_ReleasesMemory(t *testing.T) {
	t.Parallel()
	type memory struct{ cells, index, names int }
	for _, c := range []struct {
		keys, bytes, insert, retain int
		grown, after                memory
	}{
		{1000, 1 << 20, 1, 1, memory{64, 128, 2048}, memory{64, 128, 2048}},
		{1000, 1 << 20, 64, 8, memory{64, 128, 2048}, memory{64, 128, 2048}},
		{1000, 1 << 20, 65, 17, memory{128, 128, 2048}, memory{128, 128, 2048}},
		{1000, 1 << 20, 96, 96, memory{128, 128, 2048}, memory{128, 128, 2048}},
		{1000, 1 << 20, 97, 16, memory{128, 256, 2048}, memory{128, 128, 2048}},
		{1000, 1 << 20, 97, 15, memory{128, 256, 2048}, memory{64, 128, 480}},
		{1000, 1 << 20, 800, 100, memory{1000, 2048, 16608}, memory{200, 512, 3200}},
		{1000, 1 << 20, 800, 400, memory{1000, 2048, 16608}, memory{1000, 1024, 16608}},
		{1000, 1 << 20, 800, 0, memory{1000, 2048, 16608}, memory{}},
		{70, 1200, 70, 70, memory{70, 128, 1200}, memory{70, 128, 1200}},
	} {
		table := NewTable[int](c.keys, c.bytes)
		is := func() memory { return memory{table.Size(), len(table.index), cap(table.names)} }
		key := func(i int) (uint64, string) { return uint64(i) * 0x9e3779b97f4a7c15, fmt.Sprintf("%016d", i) }
		for i := range c.insert {
			if place := table.Insert(key(i)); place != i {
				t.Fatalf("%+v: key %d goes to %d", c, i, place)
			}
		}
		if got := is(); got != c.grown {
			t.Errorf("%d of %d keys take %+v, want %+v", c.insert, c.keys, got, c.grown)
		}
		if got, want := table.Bytes(), 4*cap(table.index)+cap(table.names)+cap(table.cells)*24; got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
		// The last keys stay.
		moved := make([]int32, c.insert)
		table.Retain(func(place int, _ *int) bool { return place >= c.insert-c.retain }, moved)
		for i := range moved {
			want := max(int32(i-(c.insert-c.retain)), -1)
			hash, name := key(i)
			if moved[i] != want || table.Find(hash, name) != int(want) {
				t.Fatalf("%+v: key %d moved to %d and is at %d, want %d", c, i, moved[i], table.Find(hash, name), want)
			}
		}
		if got := is(); got != c.after {
			t.Errorf("%d of %d keys that stay take %+v, want %+v", c.retain, c.insert, got, c.after)
		}
	}
}

// Warm reads the memory that Find will read, for any hashes, and changes nothing.
func TestWarmChangesNothing(t *testing.T) {
	t.Parallel()
	table := NewTable[int](100, 1000)
	var hashes []uint64
	for i := range 50 {
		hash := uint64(i) * 0x9e3779b97f4a7c15
		hashes = append(hashes, hash, hash+1<<40)
		table.Insert(hash, fmt.Sprint(i%3))
		before := slices.Clone(table.index)
		table.Warm(hashes)
		table.Warm(nil)
		if !slices.Equal(before, table.index) || table.Len() != i+1 {
			t.Fatal("it changed the table")
		}
	}
	// For one held key, the result is its hash and its first byte.
	one := NewTable[int](1, 10)
	one.Insert(7, "a")
	if got := one.Warm([]uint64{7}); got != 7+'a' {
		t.Errorf("%d", got)
	}
	two := NewTable[int](2, 10)
	two.Insert(7, "ab")
	two.Insert(8, "cd")
	if got := two.Warm([]uint64{8, 7}); got != 7+'a'+8+'c' {
		t.Errorf("%d", got)
	}
}

// Numbers below 1 count as 1. Parts of all numbers are exact if each number has a level of its own.
func TestHistogram_PartsOfNumbers(t *testing.T) {
	t.Parallel()
	var none, some Histogram
	for _, n := range []int64{-5, 0, 1, 2, 3, 30} {
		some.Add(n)
	}
	if none.Median() != 0 || none.LowerThird() != 0 || some.Median() != 1 || some.LowerThird() != 1 {
		t.Errorf("%d %d %d %d", none.Median(), none.LowerThird(), some.Median(), some.LowerThird())
	}
	some.Add(31)
	if some.Median() != 2 || some.LowerThird() != 1 {
		t.Errorf("median %d, third %d", some.Median(), some.LowerThird())
	}
	var twelve Histogram
	for n := range int64(12) {
		twelve.Add(n + 1)
	}
	if twelve.Median() != 6 || twelve.LowerThird() != 4 {
		t.Errorf("of 1 to 12: median %d, third %d", twelve.Median(), twelve.LowerThird())
	}
	for n, want := range map[int64][2]int64{1: {1, 1}, 31: {31, 31}, 32: {32, 33}, 33: {32, 33}, 34: {33, 35}, 64: {48,
		67},
		math.MaxInt64: {59<<4 - 1, math.MaxInt64}} {
		if l := levelOf(n); n < 1<<40 && int64(l) != want[0] || levelTop(l) != want[1] {
			t.Errorf("%d: level %d up to %d, want %v", n, l, levelTop(l), want)
		}
	}
}

// A summary of three counters, step by step.
func TestSummaryTape(t *testing.T) {
	t.Parallel()
	s := New(3)
	add := func(key string, n int64) { s.Add(uint64(key[0])<<40, key, n) }
	is := func(step, key string, lower, upper int64, held int, err int64) {
		t.Helper()
		if l, u := s.Bounds(uint64(key[0])<<40, key); l != lower || u != upper || s.Len() != held || s.Error() != err {
			t.Errorf("%s: %s has %d to %d, %d held, error %d; want %d to %d, %d, %d", step, key, l, u, s.Len(),
				s.Error(), lower,
				upper, held, err)
		}
	}
	add("a", 10)
	add("b", 4)
	add("c", 4)
	is("exact", "a", 10, 10, 3, 0)
	is("exact", "d", 0, 0, 3, 0)
	add("d", 1) // the lower half, b and c, is given up
	is("full", "a", 10, 10, 2, 4)
	is("full", "b", 0, 4, 2, 4)
	is("full", "d", 1, 5, 2, 4)
	add("e", 3)
	add("f", 5) // of 6, 1 and 3 above the offset, 3 are given up
	is("twice", "d", 0, 7, 2, 7)
	is("twice", "e", 0, 7, 2, 7)
	is("twice", "f", 5, 12, 2, 7)
	s.Decay(0.5)
	is("half", "a", 5, 6, 2, 5)
	is("half", "e", 0, 4, 2, 5)
	is("half", "f", 2, 7, 2, 5)
	s.Decay(0.5)
	is("quarter", "a", 2, 4, 2, 4)
	is("quarter", "e", 0, 2, 2, 4)
	is("quarter", "f", 1, 5, 2, 4)
	s.Decay(0.5)
	is("eighth", "a", 1, 3, 1, 3)
	is("eighth", "f", 0, 3, 1, 3)
}

// The longest key takes a quarter of the memory.
func TestSummary_BoundsTheLengthOfKeys(t *testing.T) {
	t.Parallel()
	for counters, most := range map[int]int{-1: 1 << 14, 2: 1 << 14, 1 << 10: 1 << 14, 1 << 11: 1 << 15} {
		if s := New(counters); !s.Add(1, strings.Repeat("x", most), 1) || s.Add(2, strings.Repeat("x", most+1), 1) {
			t.Errorf("%d counters", counters)
		}
	}
	if got := New(0).table.Max(); got != 2 {
		t.Errorf("%d counters at least", got)
	}
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{-1: 1, 0: 1, 1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 1 << 24: 1 << 24, 1<<24 + 1: 1 << 24} {
		if got := Buckets(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
	if a, b := Bucket(0x123456_789abcdef0, 1<<24), Bucket(0xabcd_0000000000, 16); a != 0x123456 || b != 0xd {
		t.Errorf("%x %x", a, b)
	}
}
