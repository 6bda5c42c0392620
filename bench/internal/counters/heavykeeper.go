package counters

import "github.com/keilerkonzept/topk/sliding"

// HeavyKeeper is the sliding HeavyKeeper of github.com/keilerkonzept/topk, with slots of a second and a list of its
// 256 top keys. Its hash functions have fixed seeds, and its chance has none, so its counts differ from run to run.
type HeavyKeeper struct {
	sketch *sliding.Sketch
	hot    float64
	now    int64 // the present second
}

// NewHeavyKeeper returns a sketch with three rows, as wide as the budget allows.
func NewHeavyKeeper(c Config) *HeavyKeeper {
	const top, bytesTop, depth, bytesBucket = 256, 100, 3, 64
	width := max((c.Budget-top*bytesTop)/bytesBucket/depth, 16)
	return &HeavyKeeper{sketch: sliding.New(top, slots, sliding.WithWidth(width), sliding.WithDepth(depth)),
		hot: float64(c.Hot)}
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
