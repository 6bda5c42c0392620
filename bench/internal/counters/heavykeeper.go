package counters

import (
	"github.com/keilerkonzept/topk"
	"github.com/keilerkonzept/topk/sliding"
)

// HeavyKeeper is the sliding HeavyKeeper of github.com/keilerkonzept/topk, with slots of a second and a list of its
// 256 top keys. Its hash functions have fixed seeds. Its random numbers have no seed, so its counts differ from run to
// run.
type HeavyKeeper struct {
	sketch *sliding.Sketch
	hot    float64
	now    int64 // the present second
}

// HeavyKeeperRows is the number of rows of a HeavyKeeper, and heavyKeeperTop the number of keys that it lists.
const (
	HeavyKeeperRows = 3
	heavyKeeperTop  = 256
)

// heavyKeeperWidth returns the number of buckets of a row for a budget.
func heavyKeeperWidth(budget int) int {
	const bytesTop, bytesBucket = 100, 64
	return max((budget-heavyKeeperTop*bytesTop)/bytesBucket/HeavyKeeperRows, 16)
}

// HeavyKeeperCell returns the function that returns the bucket of a key in a row.
func HeavyKeeperCell(budget int) func(row int, key string) uint64 {
	width := heavyKeeperWidth(budget)
	return func(row int, key string) uint64 { return uint64(topk.BucketIndex(key, row, width)) }
}

// NewHeavyKeeper returns a sketch as wide as the budget allows.
func NewHeavyKeeper(c Config) *HeavyKeeper {
	return &HeavyKeeper{sketch: sliding.New(heavyKeeperTop, slots, sliding.WithDepth(HeavyKeeperRows),
		sliding.WithWidth(heavyKeeperWidth(c.Budget))), hot: float64(c.Hot)}
}

// Add adds the requests, and turns the slots of seconds that end.
func (h *HeavyKeeper) Add(requests []Request) {
	for i := range requests {
		h.advance(requests[i].At / second)
		h.sketch.Incr(requests[i].Key)
	}
}

func (h *HeavyKeeper) advance(now int64) {
	if n := now - h.now; n > 0 {
		h.sketch.Ticks(int(n))
		h.now = now
	}
}

// Hot returns the top keys with the threshold.
func (h *HeavyKeeper) Hot(now int64, to []Count) []Count {
	h.advance((now - 1) / second)
	for item := range h.sketch.Iter {
		if n := float64(item.Count); n >= h.hot {
			to = append(to, Count{item.Item, n})
		}
	}
	return to
}
