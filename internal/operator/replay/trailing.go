package replay

// trailing keeps, for each id, how often it occurred in the last width
// seconds. It is exact, and its memory is proportional to the occurrences in that
// time: ids without any take four bytes.
type trailing struct {
	slots  [][]amount // slot s%width holds second s
	sums   []uint32   // by id
	newest int64      // seconds are greater than 0
}

type amount struct{ id, n uint32 }

func newTrailing(width int) *trailing {
	return &trailing{slots: make([][]amount, width)}
}

// advance makes second s the newest and expires the slots that are width older.
func (t *trailing) advance(s int64) {
	width := int64(len(t.slots))
	for i := max(t.newest+1, s-width+1); i <= s; i++ {
		slot := &t.slots[i%width]
		for _, a := range *slot {
			t.sums[a.id] -= a.n
		}
		*slot = (*slot)[:0]
	}
	t.newest = s
}

// add counts n of id in the newest second and returns its sum. An id is added
// at most once in a second.
func (t *trailing) add(id, n uint32) uint32 {
	for int(id) >= len(t.sums) {
		t.sums = append(t.sums, 0)
	}
	slot := &t.slots[t.newest%int64(len(t.slots))]
	*slot = append(*slot, amount{id, n})
	t.sums[id] += n
	return t.sums[id]
}
