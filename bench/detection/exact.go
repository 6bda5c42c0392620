package main

// exact holds the truth: every request of the window, and its sums.
type exact struct {
	threshold int32
	sums      []int32
	slots     [window][]uint32
	second    int
	over      map[uint32]bool // keys at the threshold or above
}

func newExact(keys int, threshold int64) *exact {
	return &exact{threshold: int32(threshold), sums: make([]int32, keys), over: map[uint32]bool{}}
}

// turn begins the next second.
func (x *exact) turn() {
	x.second++
	slot := &x.slots[x.second%window]
	for _, id := range *slot {
		if x.sums[id]--; x.sums[id] == x.threshold-1 {
			delete(x.over, id)
		}
	}
	*slot = (*slot)[:0]
}

func (x *exact) add(ids []uint32) {
	slot := &x.slots[x.second%window]
	*slot = append(*slot, ids...)
	for _, id := range ids {
		if x.sums[id]++; x.sums[id] == x.threshold {
			x.over[id] = true
		}
	}
}

// requests returns the number of requests of the window.
func (x *exact) requests() (n int) {
	for _, s := range x.slots {
		n += len(s)
	}
	return n
}
