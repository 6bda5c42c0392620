package detect

import (
	"fmt"
	"math"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

type Kind string

// The kinds of a Change.
const (
	BecameHot Kind = "became" // the key entered the hot set
	Cooled    Kind = "cooled" // the key left the hot set
	LoopBegan Kind = "looped" // one or a few clients took the key over its threshold: a loop
	LoopEnded Kind = "ceased" // the key is no longer a loop
)

// Change reports that a key entered or left the hot set or the loops.
type Change struct {
	Hot  hottype.HotKey `json:"hot"`
	Kind Kind           `json:"kind"`
	At   time.Time      `json:"at"`
	// Displaced is true for a key that left because heavier keys fill the rule's MaxHot, and not because it cooled.
	Displaced bool `json:"displaced,omitempty"`
}

// Stats holds counters since the Detector was built. Keys, Candidates, Hot, Unplaced, Loops, ClientSketches, Newest,
// Bytes, Error and ErrorRatio are gauges of the current state.
type Stats struct {
	Keys           int64   `metric:"hotparam_aggregate_detect_keys" help:"Counted keys of all rules."`
	Candidates     int64   `metric:"hotparam_aggregate_detect_candidates" help:"Keys that are over their threshold or cooling."`
	Hot            int64   `metric:"hotparam_aggregate_detect_hot" help:"Hot keys of this aggregator."`
	Unplaced       int64   `metric:"hotparam_aggregate_detect_unplaced" help:"Minimum number of keys over their threshold without a place in the hot set of their rule (max_hot)."`
	Loops          int64   `metric:"hotparam_aggregate_detect_loops" help:"Loops of this aggregator: keys over their threshold because of one or a few clients."`
	ClientSketches int64   `metric:"hotparam_aggregate_detect_client_sketches" help:"Keys whose clients are known."`
	Newest         int64   `metric:"hotparam_aggregate_detect_newest_timestamp_seconds" help:"Newest second with counts, in unix seconds."`
	Bytes          int64   `metric:"hotparam_aggregate_detect_bytes" help:"Memory of counters and keys."`
	Error          int64   `metric:"hotparam_aggregate_detect_error" help:"Maximum number of requests by which the count of a key over its window can be too low. 0: all counts are exact."`
	ErrorRatio     float64 `metric:"hotparam_aggregate_detect_error_ratio" help:"Highest possible error of a key's count as a part of its rule's threshold, over all rules."`

	Adds          uint64 `metric:"hotparam_aggregate_detect_adds_total" help:"Counts accepted."`
	Evicted       uint64 `metric:"hotparam_aggregate_detect_evicted_total" help:"Counters of rarely requested keys reused for other keys."`
	DroppedLate   uint64 `metric:"hotparam_aggregate_detect_dropped_late_total" help:"Counts of a second too long ago."`
	DroppedFuture uint64 `metric:"hotparam_aggregate_detect_dropped_future_total" help:"Counts of a second too far ahead."`
	DroppedFull   uint64 `metric:"hotparam_aggregate_detect_dropped_full_total" help:"Counts of a key that is too long for the memory of the detector."`
	// N was not positive, or too large to be summed
	DroppedBad            uint64 `metric:"hotparam_aggregate_detect_dropped_bad_total" help:"Counts with an impossible number."`
	DroppedNoRule         uint64 `metric:"hotparam_aggregate_detect_dropped_no_rule_total" help:"Counts of a resource without a rule."`
	DroppedClientSketches uint64 `metric:"hotparam_aggregate_detect_dropped_client_sketches_total" help:"Times that the clients of a key were discarded to make room for other keys. Until they are known again, the key counts as requested by one client."`
	Pruned                uint64 `metric:"hotparam_aggregate_detect_pruned_total" help:"Keys over their threshold left out of the hot set because heavier keys fill it."`
	Displaced             uint64 `metric:"hotparam_aggregate_detect_displaced_total" help:"Keys that heavier keys replaced in the hot set."`
	NotCanonical          uint64 `metric:"hotparam_aggregate_detect_not_canonical_total" help:"Counts of keys over their threshold that stay cold because they are not in canonical form (docs/protocol.md), so no request has them."`
	ClockResets           uint64 `metric:"hotparam_aggregate_detect_clock_resets_total" help:"Times that this machine's clock stepped back by more than a window."`
}

func (l *shard) addStatsTo(st *Stats) {
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
		st.Bytes += int64(w.Bytes)
		if h.baseline != nil {
			st.Bytes += int64(h.baseline.sums.Bytes())
		}
		st.Candidates += int64(h.listed)
		st.ClientSketches += int64(len(h.clients.keys))
		st.Evicted += w.Evicted
		st.Pruned += h.pruned
		st.NotCanonical += h.notCanonical
		st.Error = max(st.Error, w.Error)
		if h.compiled.least != never {
			st.ErrorRatio = max(st.ErrorRatio, float64(w.Error)/float64(h.compiled.least))
		}
	}
}

// AlarmRatio is the part of a rule's threshold from which its error is worth an alarm. At twice that, a hot key can be
// missed for long.
const AlarmRatio = 0.25

// RuleError is the error that the counts of one rule can have now.
type RuleError struct {
	Rule string
	// Error is the maximum number of requests by which the count of a key over the window can be too low.
	Error int64
	// Threshold is the lowest count at which a key of the rule is hot.
	Threshold int64
	// Ratio is Error / Threshold, or 0 if the rule has no criterion.
	Ratio float64
}

// Errors returns the error that the counts of each rule can have, in the order of the rules.
func (d *Detector) Errors() []RuleError {
	d.rules.RLock()
	defer d.rules.RUnlock()
	errs := make([]RuleError, len(d.traffic))
	for _, l := range d.shards {
		l.mu.Lock()
		for i, h := range l.states {
			e := &errs[i]
			e.Rule, e.Threshold, e.Error = h.compiled.rule.Name, h.compiled.least, max(e.Error, h.counts.Error())
			if e.Threshold != never {
				e.Ratio = float64(e.Error) / float64(e.Threshold)
			}
		}
		l.mu.Unlock()
	}
	return errs
}

// Check rejects rules whose counts could be wrong by half of their threshold at their expected rate
// (HotCriteria.MaxRate, else Options.MaxRate), because hot keys could then be missed. It does not check a rule whose
// rate is unknown.
func Check(set *rules.Set, o Options) error {
	switch {
	case o.Counters < 0 || o.Counters > MaxCounters:
		return fmt.Errorf("detect: %d counters are not between 1 and %d (0: %d); set detect.counters so", o.Counters,
			MaxCounters, DefaultCounters)
	case !(o.MaxRate >= 0):
		return fmt.Errorf("detect: detect.max_rate %g must not be negative", o.MaxRate)
	}
	o = o.withDefaults()
	for _, r := range set.Rules {
		rate := r.Hot.MaxRate * float64(r.Cost.Unit())
		if rate == 0 && r.Cost.IsRequests() {
			rate = o.MaxRate
		}
		counted := "requests"
		if !r.Cost.IsRequests() {
			counted = "units of its cost"
		}
		t := compileRule(r)
		worst := t.maxError(rate, o)
		if t.least == never || 2*worst < float64(t.least) {
			continue
		}
		return fmt.Errorf(
			"detect: rule %q: at %.0f %s/s %d counters can be wrong by %.0f %s in %ds, and a key is hot from %d on: "+
				"hot keys could be missed; set %s, or a lower max_rate if that is the truth",
			r.Name, rate, counted, o.Counters, math.Ceil(worst), counted, t.window, t.least, t.describeRemedy(rate, o))
	}
	return nil
}

// errorFactor returns 2.2 times the number of seconds that share the counters. Package window explains why no second
// loses more than this factor times its requests divided by the number of counters.
func (r *compiledRule) errorFactor(o Options) float64 {
	return 2.2 * float64(r.window+wholeSeconds(o.Future))
}

// maxError returns the greatest error at a rate, for any keys. It is 0 if there are counters for every request of the
// window and of the seconds that may be ahead.
func (r *compiledRule) maxError(rate float64, o Options) float64 {
	all := rate * float64(r.window+wholeSeconds(o.Future))
	if all <= float64(o.Counters) {
		return 0
	}
	return r.errorFactor(o) * rate * float64(r.window) / float64(o.Counters)
}

func (r *compiledRule) describeRemedy(rate float64, o Options) string {
	if enough := r.countersNeeded(rate, o); enough <= MaxCounters {
		return fmt.Sprintf("detect.counters to %d or more, or a higher threshold", enough)
	}
	return fmt.Sprintf("a higher threshold (no number of counters up to %d would do)", MaxCounters)
}

func (r *compiledRule) countersNeeded(rate float64, o Options) int64 {
	exact := rate * float64(r.window+wholeSeconds(o.Future))
	bounded := 2*r.errorFactor(o)*rate*float64(r.window)/float64(r.least) + 1
	return int64(math.Ceil(min(exact, bounded)))
}
