package limit

import (
	"math"
	"math/bits"

	"github.com/hotparam/pipeline/internal/limitcore"
)

// subjectHash stands for a subject.
type subjectHash struct{ hi, lo uint64 }

// entry is one remembered subject.
type entry struct {
	id    subjectHash
	state limitcore.State
	// calls counts the calls since it was put here, denied ones too.
	calls uint32
	// log is the number of its tick log, 0 for none.
	log int32
}

// called counts a call, allowed or denied.
func (e *entry) called() {
	if e.calls < math.MaxUint32 {
		e.calls++
	}
}

// table holds the subjects of one Space in one shard. Its shard's lock guards
// it. The zero value is empty.
type table struct {
	index   map[uint64]int32 // ident.hi to the slot in entries
	entries []entry
	logs    limitcore.Logs
	hand    int // next slot to compare when a slot is needed
	blocks  map[subjectHash]block

	evicted, evictedLive uint64
}

// find returns the slot of a subject, -1 when it is not known. Two subjects of
// one table with the same hi (once in 2^64) evict each other.
func (t *table) find(id subjectHash) int32 {
	if i, ok := t.index[id.hi]; ok && t.entries[i].id == id {
		return i
	}
	return -1
}

// put makes a place for a subject that is not known and returns its slot.
func (t *table) put(id subjectHash, capacity int, now int64) int32 {
	slot, taken := t.index[id.hi]
	switch {
	case taken:
		t.evict(slot, now)
	case len(t.entries) < capacity:
		slot = int32(len(t.entries))
		t.entries = append(t.entries, entry{})
	default:
		slot = t.victim(now)
		t.evict(slot, now)
	}
	if t.index == nil {
		t.index = make(map[uint64]int32)
	}
	t.entries[slot] = entry{id: id}
	t.index[id.hi] = slot
	return slot
}

func (t *table) evict(slot int32, now int64) {
	e := &t.entries[slot]
	t.evicted++
	if now < e.state.End() {
		t.evictedLive++
	}
	t.logs.Drop(e.log)
	e.log = 0
	delete(t.index, e.id.hi)
}

// victim moves the hand over eight slots at most and returns the one whose
// loss costs least. A subject is compared once in a round of the hand, so a new
// one has an eighth of the table's turnover to be called again.
func (t *table) victim(now int64) int32 {
	best, bestLoss := -1, evictionCost{}
	for range min(8, len(t.entries)) {
		i := t.hand
		t.hand = (t.hand + 1) % len(t.entries)
		e := &t.entries[i]
		l := e.loss(now)
		if l.left == 0 { // expired: nothing is lost
			return int32(i)
		}
		if best < 0 || l.less(bestLoss) {
			best, bestLoss = i, l
		}
	}
	return int32(best)
}

// evictionCost is the cost of evicting a subject, compared field by field.
type evictionCost struct {
	calls int   // how often it was called, as a power of two
	left  int64 // how long until it expires; 0: it has
	at    int64 // when it was last charged
}

func (e *entry) loss(now int64) evictionCost {
	return evictionCost{calls: bits.Len32(e.calls), left: max(0, e.state.End()-now), at: e.state.ChargedAt()}
}

func (l evictionCost) less(m evictionCost) bool {
	switch {
	case l.calls != m.calls:
		return l.calls < m.calls
	case l.left != m.left:
		return l.left < m.left
	}
	return l.at < m.at
}
