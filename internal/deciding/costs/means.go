package costs

import (
	"hash/maphash"
	"sync/atomic"
)

const (
	meanSlots = 1 << 12
	meanBits  = 40 // of a slot hold the mean and usedBit; the other bits are of the hash of the name
	usedBit   = 1 << (meanBits - 1)
	maxCost   = usedBit - 1
	// meanWeight is the number of requests over which a mean is taken, about.
	meanWeight = 4
)

// means holds the mean cost of the keys and rules that were measured lately. A name has the slot of its hash, which it
// loses to a name that costs more or is measured more often. It uses 32 KiB, whatever clients send.
type means struct {
	seed  maphash.Seed
	slots [meanSlots]atomic.Uint64
}

func (t *means) slotOf(name []byte) (slot *atomic.Uint64, tag uint64) {
	h := maphash.Bytes(t.seed, name)
	return &t.slots[h%meanSlots], h>>meanBits<<meanBits | usedBit
}

// meanOf returns the mean cost of a name, and whether it is known.
func (t *means) meanOf(name []byte) (cost int64, known bool) {
	slot, tag := t.slotOf(name)
	v := slot.Load()
	return int64(v & maxCost), v&^maxCost == tag
}

// add adds the cost of a request to the mean of a name.
func (t *means) add(name []byte, cost int64) {
	slot, tag := t.slotOf(name)
	cost = min(max(cost, 0), maxCost)
	for {
		v := slot.Load()
		mean, next := int64(v&maxCost), uint64(0)
		switch {
		case v&^maxCost == tag:
			next = tag | uint64(mean+(cost-mean)/meanWeight)
		case v == 0 || cost >= mean:
			next = tag | uint64(cost)
		default: // another name has the slot, and loses it unless it is measured as well
			next = v&^maxCost | uint64(mean-mean/16-1)
		}
		if slot.CompareAndSwap(v, next) {
			return
		}
	}
}
