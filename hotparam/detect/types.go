package detect

import (
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

// Kind is what a Change says.
type Kind string

// The kinds of a Change.
const (
	Became Kind = "became" // the key entered the hot set
	Cooled Kind = "cooled" // the key left it
)

// Change is one key entering or leaving the hot set.
type Change struct {
	Hot  hotparam.Hot `json:"hot"`
	Kind Kind         `json:"kind"`
	At   time.Time    `json:"at"`
	// Displaced is true for a key that left because heavier ones fill the
	// rule's MaxHot, and not because it cooled.
	Displaced bool `json:"displaced,omitempty"`
}

// Stats counts what a Detector has seen since it was built. The gauges Keys,
// Candidates, Hot and Newest are of this moment.
type Stats struct {
	Keys       int64 // distinct keys held, over all rules
	Candidates int64 // keys over their threshold or still cooling
	Hot        int64 // keys in the hot set of the last Tick
	Newest     int64 // newest second accepted, unix; 0 before the first

	Adds          uint64 // counts accepted
	DroppedLate   uint64 // older than the window or than Lateness
	DroppedFuture uint64 // further ahead than Future
	DroppedFull   uint64 // new key beyond MaxKeys, or one whose slots found no room
	DroppedBad    uint64 // N not positive, or beyond what can be summed
	DroppedNoRule uint64 // no rule has the key's resource
	Displaced     uint64 // keys pushed out of the hot set by heavier ones
	ClockResets   uint64 // now stepped back by more than the windows
}
