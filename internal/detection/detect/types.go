package detect

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Kind is what a Change says.
type Kind string

// The kinds of a Change.
const (
	Became Kind = "became" // the key entered the hot set
	Cooled Kind = "cooled" // the key left it
	Looped Kind = "looped" // one or a few clients took the key over its threshold: a loop
	Ceased Kind = "ceased" // it is no loop any more
)

// Change is one key entering or leaving the hot set or the loops.
type Change struct {
	Hot  hottype.Hot `json:"hot"`
	Kind Kind        `json:"kind"`
	At   time.Time   `json:"at"`
	// Displaced is true for a key that left because heavier ones fill the
	// rule's MaxHot, and not because it cooled.
	Displaced bool `json:"displaced,omitempty"`
}

// Stats counts what a Detector has seen since it was built. The gauges Keys,
// Candidates, Hot, Loops, ClientSketches, Newest, Bytes, Error and ErrorRatio are of this moment.
type Stats struct {
	Keys           int64 // distinct keys held, over all rules
	Candidates     int64 // keys over their threshold or still cooling
	Hot            int64 // keys in the hot set of the last Tick
	Loops          int64 // keys among the loops of the last Tick
	ClientSketches int64 // keys of which the clients are held
	Newest         int64 // newest second accepted, unix; 0 before the first
	Bytes          int64 // memory of counters and keys
	// Error is the greatest error of a rule: the most requests that the count
	// of a key over the window can be short of the truth. 0: all counts are
	// exact. ErrorRatio is the greatest such error as a part of its rule's
	// threshold.
	Error      int64
	ErrorRatio float64

	Adds                  uint64 // counts accepted
	Given                 uint64 // counters of light keys given up to make room
	DroppedLate           uint64 // older than the window or than Lateness
	DroppedFuture         uint64 // further ahead than Future
	DroppedFull           uint64 // a key too long for the memory that there is
	DroppedBad            uint64 // N not positive, or beyond what can be summed
	DroppedNoRule         uint64 // no rule has the key's resource
	DroppedClientSketches uint64 // client sketches of keys beyond MaxSketches, which are judged by their rate alone
	Pruned                uint64 // keys over a threshold, but lighter than all that fit in the list
	Displaced             uint64 // keys pushed out of the hot set by heavier ones
	ClockResets           uint64 // now stepped back by more than the windows
}

// count adds the figures of a shard.
func (l *shard) count(st *Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	st.Newest = max(st.Newest, l.stats.Newest)
	st.ClockResets = max(st.ClockResets, l.stats.ClockResets)
	st.Adds += l.stats.Adds
	st.DroppedLate += l.stats.DroppedLate
	st.DroppedFuture += l.stats.DroppedFuture
	st.DroppedFull += l.stats.DroppedFull
	st.DroppedBad += l.stats.DroppedBad
	st.DroppedClientSketches += l.budget.refused
	for _, h := range l.states {
		w := h.counts.Stats()
		st.Keys += int64(w.Keys)
		st.Bytes += int64(w.Bytes + h.baseline.bytes())
		st.Candidates += int64(h.listed)
		st.ClientSketches += int64(len(h.clients.keys))
		st.Given += w.Given
		st.Pruned += h.pruned
		st.Error = max(st.Error, w.Error)
		if h.compiled.least != never {
			st.ErrorRatio = max(st.ErrorRatio, float64(w.Error)/float64(h.compiled.least))
		}
	}
}
