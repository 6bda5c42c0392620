package window

import (
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"

	"pgregory.net/rapid"
)

// For any input, the error of a second is at most 2.2 times its requests, divided by its share of the counters. A unit
// of the filter's weights is rounded up.
func TestErrorIsAsPromised(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Window:   rapid.Int64Range(1, 5).Draw(t, "window"),
			Future:   rapid.Int64Range(0, 2).Draw(t, "future"),
			Counters: rapid.SampledFrom([]int{60, 200}).Draw(t, "counters"),
		}
		b, e := newBox(cfg, 0), newExact(cfg, 0)
		keys := rapid.SampledFrom([]int{30, 300, 3000}).Draw(t, "keys")
		weights := rapid.SampledFrom([][]int64{{1}, {1000}, {1, 1, 1, 5}, {1, 50, 10_000}}).Draw(t, "weights")
		r := rapid.Uint64().Draw(t, "seed")
		sums := map[int64]int64{} // of each second
		for second := range int64(8) {
			b.Advance(second, nil)
			e.now = second
			for range rapid.IntRange(0, 1500).Draw(t, "adds") {
				r = r*6364136223846793005 + 1442695040888963407
				key, n := fmt.Sprint("k", int(r>>33)%(1+int(r>>45)%keys)), weights[int(r>>60)%len(weights)]
				b.add(key, second, n)
				e.add(key, second, n)
				sums[second] += n
			}
			promised := 0.0
			for s := second - cfg.Window + 1; s <= second; s++ {
				promised += 2.2 * float64(sums[s]) * float64(cfg.Window+cfg.Future) / float64(cfg.Counters)
			}
			if err := b.Error(); float64(err) > promised {
				t.Fatalf("second %d: wrong by %d, promised %.1f", second, err, promised)
			}
			for key := range e.counts {
				lower, upper := b.Sum(maphash.String(b.seed, key), key)
				if truth := e.sum(key); lower > truth || truth > upper {
					t.Fatalf("%s is %d, held to be %d to %d", key, truth, lower, upper)
				}
			}
			check(t, b)
		}
	})
}

// For any weights, the filter opens when counters are short, keeps keys that come once out of the table, and closes
// with the traffic that it was for.
func TestColdFilterActivatesWhenCountersAreShort(t *testing.T) {
	t.Parallel()
	for _, weight := range []int64{1, 1000, hottype.MaxCount / 1000} {
		b := newBox(Config{Window: 3, Counters: 3000}, 0)
		once := 0
		for second := range int64(6) {
			b.Advance(second, nil)
			for range 10_000 {
				once++
				b.add(fmt.Sprint("once", once), second, weight)
			}
		}
		if st := b.Stats(); b.filter.usedCells < 5_000 || st.Error == 0 || st.Evicted > 20_000 {
			t.Errorf("weight %d: %d cells, %+v", weight, b.filter.usedCells, st)
		}
		for second := int64(6); second < 9; second++ {
			b.Advance(second, nil)
			for i := range 900 {
				b.add(fmt.Sprint("steady", i), second, weight)
			}
		}
		if st := b.Stats(); b.filter.cells != nil || st.Error != 0 || b.sum("steady7") != 3*weight {
			t.Errorf("weight %d, afterwards: %+v", weight, st)
		}
	}
}
