package heavyhitters

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHistogram_LevelsHoldTheirNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, math.MaxInt64).Draw(t, "n") >> rapid.IntRange(0, 62).Draw(t, "shift")
		n = max(n, 1)
		i := levelOf(n)
		if most := levelTop(i); n > most || levelOf(most) != i || float64(most) > float64(n)*(1+1.0/16) {
			t.Fatalf("%d is in level %d up to %d", n, i, most)
		}
	})
}

func TestHistogram_MedianIsAHalf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.SliceOfN(rapid.Int64Range(1, 2000), 1, 200).Draw(t, "numbers")
		var l Histogram
		for _, n := range ns {
			l.Add(n)
		}
		slices.Sort(ns)
		median := ns[(len(ns)-1)/2]
		if half := l.Median(); half < median || float64(half) > float64(median)*(1+1.0/16) {
			t.Fatalf("half of %v is %d, median %d", ns, half, median)
		}
	})
}

// A Table holds the same keys and values as a map.
func TestTable_AgreesWithAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{1, 10, 100, 1000}).Draw(t, "keys")
		table, model := NewTable[int](most, 20*most), map[string]int{}
		clash := rapid.SampledFrom([]uint64{0, 3, math.MaxUint64}).Draw(t, "hash bits")
		bytes := 0
		for i := range rapid.IntRange(1, 2000).Draw(t, "steps") {
			key := fmt.Sprint("key", rapid.IntRange(0, 2*most).Draw(t, "key"))
			hash := (uint64(len(key)) + uint64(key[len(key)-1])) * 0x9e3779b97f4a7c15 & clash
			if i%500 == 499 {
				moved := make([]int32, table.Len())
				table.Retain(func(_ int, v *int) bool { return *v%2 == 0 }, moved)
				bytes = 0
				for k, v := range model {
					if v%2 != 0 {
						delete(model, k)
					} else {
						bytes += len(k)
					}
				}
			}
			place := table.Find(hash, key)
			want, held := model[key]
			if held != (place >= 0) || held && (*table.At(place) != want || table.Key(place) != key ||
				table.Hash(place) != hash) {
				t.Fatalf("%s is at %d, model %v %d", key, place, held, want)
			}
			if held {
				continue
			}
			place = table.Insert(hash, key)
			if room := len(model) < most && bytes+len(key) <= 20*most; room != (place >= 0) {
				t.Fatalf("Insert of %s with %d keys, %d bytes: %d", key, len(model), bytes, place)
			}
			if place >= 0 {
				*table.At(place), model[key] = i, i
				bytes += len(key)
			}
		}
		if table.Len() != len(model) {
			t.Fatalf("%d keys, model %d", table.Len(), len(model))
		}
	})
}

// The true count is between the bounds of a summary. The oracle is an exact count.
func TestSummaryBoundsHoldTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counters := rapid.SampledFrom([]int{2, 10, 50}).Draw(t, "counters")
		s, seed := New(counters), maphash.MakeSeed()
		exact, all, fades := map[string]float64{}, 0.0, 0.0
		for range rapid.IntRange(1, 800).Draw(t, "steps") {
			key := fmt.Sprint("k", rapid.IntRange(0, 100).Draw(t, "key"))
			n := rapid.SampledFrom([]int64{1, 1, 1, 2, 30, 1000}).Draw(t, "n")
			s.Add(maphash.String(seed, key), key, n)
			exact[key] += float64(n)
			all += float64(n)
			if rapid.IntRange(0, 99).Draw(t, "fade") == 0 {
				s.Decay(0.9)
				all, fades = all*0.9, fades+1
				for k := range exact {
					exact[k] *= 0.9
				}
			}
		}
		for key, truth := range exact {
			lower, upper := s.Bounds(maphash.String(seed, key), key)
			if float64(lower) > truth+1e-6 || truth > float64(upper)+1e-6 || upper-lower > s.Error() {
				t.Fatalf("%s is %g, held to be %d to %d", key, truth, lower, upper)
			}
		}
		if s.Len() > counters || float64(s.Error()) > 2.2*all/float64(counters)+fades*12+1 {
			t.Fatalf("%d keys, error %d of %g", s.Len(), s.Error(), all)
		}
	})
}

func TestDecay_RemovesKeys(t *testing.T) {
	t.Parallel()
	s := New(100_000)
	seed := maphash.MakeSeed()
	for i := range 50_000 {
		key := fmt.Sprint(i)
		s.Add(maphash.String(seed, key), key, 1000)
	}
	for range 200 {
		s.Decay(0.9)
	}
	if s.Len() != 0 || s.Bytes() > 1<<20 {
		t.Errorf("%d keys in %d bytes", s.Len(), s.Bytes())
	}
	if s.Add(1, string(make([]byte, 4<<20)), 1) {
		t.Error("took a key that would fill everything")
	}
}

func BenchmarkSummaryUnique(b *testing.B) {
	b.ReportAllocs()
	s, seed := New(10_000), maphash.MakeSeed()
	var key [16]byte
	for i := 0; b.Loop(); i++ {
		k := fmt.Appendf(key[:0], "%d", i)
		s.Add(maphash.Bytes(seed, k), string(k), 1)
	}
}
