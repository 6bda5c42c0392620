package tally

import (
	"sync/atomic"

	"github.com/hotparam/pipeline/internal/wait"
)

// budget bounds the memory of all shards together. It is used only for new pairs and client sketches.
type budget struct {
	keys, bytes, sketches          atomic.Int64
	maxKeys, maxBytes, maxSketches int64
	// maxOpened is the number of pairs that one network may have in a table beyond the pairs of all others together.
	maxOpened int64
	first     chan struct{} // holds a signal that keys is no longer 0
}

// reserve reserves the room of one pair. It reads the counters before it changes them, to keep cores from contending
// for a counter that is at its limit anyway.
func (b *budget) reserve(bytes int) bool {
	n := int64(bytes)
	if b.keys.Load() >= b.maxKeys || b.bytes.Load()+n > b.maxBytes {
		return false
	}
	keys := b.keys.Add(1)
	if keys == 1 {
		wait.Signal(b.first)
	}
	if keys > b.maxKeys || b.bytes.Add(n) > b.maxBytes {
		b.keys.Add(-1)
		b.bytes.Add(-n)
		return false
	}
	return true
}

// takeSketch reserves the room of one client sketch. Keys that are not tracked leave half of the room to tracked keys.
func (b *budget) takeSketch(tracked bool) bool {
	most := b.maxSketches
	if !tracked {
		most /= 2
	}
	if b.sketches.Load() >= most {
		return false
	}
	if b.sketches.Add(1) > most {
		b.sketches.Add(-1)
		return false
	}
	return true
}

// release returns the room of a table.
func (b *budget) release(t *table) {
	b.keys.Add(-int64(t.used))
	b.bytes.Add(-int64(len(t.arena)))
	b.sketches.Add(-int64(t.sketches.used))
}
