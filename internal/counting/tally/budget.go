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
func (r *budget) reserve(bytes int) bool {
	b := int64(bytes)
	if r.keys.Load() >= r.maxKeys || r.bytes.Load()+b > r.maxBytes {
		return false
	}
	keys := r.keys.Add(1)
	if keys == 1 {
		wait.Signal(r.first)
	}
	if keys > r.maxKeys || r.bytes.Add(b) > r.maxBytes {
		r.keys.Add(-1)
		r.bytes.Add(-b)
		return false
	}
	return true
}

// takeSketch reserves the room of one client sketch. Keys that are not tracked leave half of the room to tracked keys.
func (r *budget) takeSketch(tracked bool) bool {
	most := r.maxSketches
	if !tracked {
		most /= 2
	}
	if r.sketches.Load() >= most {
		return false
	}
	if r.sketches.Add(1) > most {
		r.sketches.Add(-1)
		return false
	}
	return true
}

// release returns the room of a table.
func (r *budget) release(t *table) {
	r.keys.Add(-int64(t.used))
	r.bytes.Add(-int64(len(t.arena)))
	r.sketches.Add(-int64(t.sketches.used))
}
