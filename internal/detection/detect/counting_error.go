package detect

import (
	"fmt"
	"math"

	"github.com/hotparam/pipeline/internal/rules"
)

// AlarmRatio is the part of a rule's threshold from which on its error is worth
// an alarm; at twice that a hot key can be missed for long.
const AlarmRatio = 0.25

// RuleError is how wrong the counts of one rule can be right now.
type RuleError struct {
	Rule string
	// Error is the most requests that the count of a key over the window can be
	// short of the truth.
	Error int64
	// Threshold is the least count at which a key of the rule is hot.
	Threshold int64
	// Ratio is Error / Threshold; 0 for a rule that makes nothing hot.
	Ratio float64
}

// Errors tells of each rule, in their order, how wrong its counts can be.
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

// Check refuses rules whose counts could be wrong by half of a threshold at the
// rate that they are expected to get (HotCriteria.MaxRate, else Options.MaxRate): hot
// keys could be missed then. A rule whose rate is not stated is not checked.
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
		rate := r.Hot.MaxRate
		if rate == 0 {
			rate = o.MaxRate
		}
		t := compileRule(r)
		worst := t.maxError(rate, o)
		if t.least == never || 2*worst < float64(t.least) {
			continue
		}
		return fmt.Errorf(
			"detect: rule %q: at %.0f requests/s %d counters can be wrong by %.0f requests in %ds, and a key is hot from %d on: "+
				"hot keys could be missed; set %s, or a lower max_rate if that is the truth",
			r.Name, rate, o.Counters, math.Ceil(worst), t.window, t.least, t.advice(rate, o))
	}
	return nil
}

// errorFactor is 2.2 times the seconds that share the counters: see package window
// for why no second loses more than that many times its requests divided by all
// counters.
func (t *compiledRule) errorFactor(o Options) float64 {
	return 2.2 * float64(t.window+seconds(o.Future))
}

// maxError is the greatest error at a rate, whatever the keys are. Counters for
// every request of the ring make none.
func (t *compiledRule) maxError(rate float64, o Options) float64 {
	all := rate * float64(t.window+seconds(o.Future))
	if all <= float64(o.Counters) {
		return 0
	}
	return t.errorFactor(o) * rate * float64(t.window) / float64(o.Counters)
}

// advice says what to set.
func (t *compiledRule) advice(rate float64, o Options) string {
	if enough := t.countersNeeded(rate, o); enough <= MaxCounters {
		return fmt.Sprintf("detect.counters to %d or more, or a higher threshold", enough)
	}
	return fmt.Sprintf("a higher threshold (no number of counters up to %d would do)", MaxCounters)
}

// countersNeeded is how many counters keep the error under half of the threshold.
func (t *compiledRule) countersNeeded(rate float64, o Options) int64 {
	exact := rate * float64(t.window+seconds(o.Future))
	bounded := 2*t.errorFactor(o)*rate*float64(t.window)/float64(t.least) + 1
	return int64(math.Ceil(min(exact, bounded)))
}
