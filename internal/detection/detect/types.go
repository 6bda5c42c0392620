package detect

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Kind is what a Change says.
type Kind string

// The kinds of a Change.
const (
	BecameHot Kind = "became" // the key entered the hot set
	Cooled    Kind = "cooled" // the key left it
	LoopBegan Kind = "looped" // one or a few clients took the key over its threshold: a loop
	LoopEnded Kind = "ceased" // it is no loop any more
)

// Change is one key entering or leaving the hot set or the loops.
type Change struct {
	Hot  hottype.HotKey `json:"hot"`
	Kind Kind           `json:"kind"`
	At   time.Time      `json:"at"`
	// Displaced is true for a key that left because heavier ones fill the
	// rule's MaxHot, and not because it cooled.
	Displaced bool `json:"displaced,omitempty"`
}

// Stats counts what a Detector has seen since it was built. The gauges Keys,
// Candidates, Hot, Loops, ClientSketches, Newest, Bytes, Error and ErrorRatio are of this moment.
type Stats struct {
	Keys           int64 `metric:"hotparam_aggregate_detect_keys" help:"Keys that are counted, over all rules."`
	Candidates     int64 `metric:"hotparam_aggregate_detect_candidates" help:"Keys over their threshold or still cooling."`
	Hot            int64 `metric:"hotparam_aggregate_detect_hot" help:"Keys that this aggregator holds hot."`
	Loops          int64 `metric:"hotparam_aggregate_detect_loops" help:"Keys that this aggregator finds over their threshold because of one or a few clients."`
	ClientSketches int64 `metric:"hotparam_aggregate_detect_client_sketches" help:"Keys whose clients are known."`
	Newest         int64 `metric:"hotparam_aggregate_detect_newest_timestamp_seconds" help:"Newest second that has counts, in unix seconds."`
	Bytes          int64 `metric:"hotparam_aggregate_detect_bytes" help:"Memory of counters and keys."`
	// Error is the greatest error of a rule: the most requests that the count
	// of a key over the window can be short of the truth. 0: all counts are
	// exact. ErrorRatio is the greatest such error as a part of its rule's
	// threshold.
	Error      int64   `metric:"hotparam_aggregate_detect_error" help:"Most requests by which the count of a key over its window can be too low; 0: all are exact."`
	ErrorRatio float64 `metric:"hotparam_aggregate_detect_error_ratio" help:"Highest possible error of a key's count as a part of its rule's threshold, for the rule where it is greatest."`

	Adds          uint64 `metric:"hotparam_aggregate_detect_adds_total" help:"Counts accepted."`
	Evicted       uint64 `metric:"hotparam_aggregate_detect_evicted_total" help:"Counters of rarely requested keys reused for other keys."`
	DroppedLate   uint64 `metric:"hotparam_aggregate_detect_dropped_late_total" help:"Counts of a second too long ago."`
	DroppedFuture uint64 `metric:"hotparam_aggregate_detect_dropped_future_total" help:"Counts of a second too far ahead."`
	DroppedFull   uint64 `metric:"hotparam_aggregate_detect_dropped_full_total" help:"Counts of a key too long for the memory that there is."`
	// N not positive, or beyond what can be summed
	DroppedBad            uint64 `metric:"hotparam_aggregate_detect_dropped_bad_total" help:"Counts with an impossible number."`
	DroppedNoRule         uint64 `metric:"hotparam_aggregate_detect_dropped_no_rule_total" help:"Counts of a resource that no rule has."`
	DroppedClientSketches uint64 `metric:"hotparam_aggregate_detect_dropped_client_sketches_total" help:"Times that the clients of a key were forgotten to make room for those of others; until they are known again, the key counts as one client's."`
	Pruned                uint64 `metric:"hotparam_aggregate_detect_pruned_total" help:"Keys over their threshold left out of the hot set because heavier ones fill it."`
	Displaced             uint64 `metric:"hotparam_aggregate_detect_displaced_total" help:"Keys pushed out of the hot set by heavier ones."`
	ClockResets           uint64 `metric:"hotparam_aggregate_detect_clock_resets_total" help:"Times that this machine's clock stepped back by more than a window."`
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
	st.DroppedClientSketches += l.budget.evicted
	for _, h := range l.states {
		w := h.counts.Stats()
		st.Keys += int64(w.Keys)
		st.Bytes += int64(w.Bytes + h.baseline.bytes())
		st.Candidates += int64(h.listed)
		st.ClientSketches += int64(len(h.clients.keys))
		st.Evicted += w.Evicted
		st.Pruned += h.pruned
		st.Error = max(st.Error, w.Error)
		if h.compiled.least != never {
			st.ErrorRatio = max(st.ErrorRatio, float64(w.Error)/float64(h.compiled.least))
		}
	}
}
