package tally

import (
	"sync/atomic"

	"github.com/hotparam/pipeline/internal/wait"
)

// budget is what all shards together may hold. It is touched only for new pairs
// and client sketches.
type budget struct {
	keys, bytes, sketches          atomic.Int64
	maxKeys, maxBytes, maxSketches int64
	// maxOpened is how many pairs more than all others together one network may have in a table.
	maxOpened int64
	first     chan struct{} // holds a signal that keys is not 0 any more
}

// reserve asks for the room of one pair. The look before the change keeps cores
// from fighting over a counter that is at its limit anyway.
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

// takeSketch asks for the room of one client sketch. Keys that are not tracked leave half of it to those that are.
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

// release returns the room of what a table holds.
func (r *budget) release(t *table) {
	r.keys.Add(-int64(t.used))
	r.bytes.Add(-int64(len(t.arena)))
	r.sketches.Add(-int64(t.sketches.used))
}
