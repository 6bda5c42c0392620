package aggregate

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/detection/detect"
)

// alarm watches how wrong counts can be. It says so once when that becomes too
// much for a rule, and once when it is over. Only the judging loop looks.
type alarm struct {
	log    *slog.Logger
	looked time.Time
	on     map[string]bool // rules
	raised atomic.Uint64
}

// check judges the errors, once a second.
func (a *alarm) look(now time.Time, errors func() []detect.RuleError) {
	if since := now.Sub(a.looked); since >= 0 && since < time.Second {
		return
	}
	a.looked = now
	for _, e := range errors() {
		switch {
		case e.Ratio > detect.AlarmRatio && !a.on[e.Rule]:
			a.on[e.Rule] = true
			a.raised.Add(1)
			a.log.Warn(
				"aggregate: more keys than there are counters for: hot keys of this rule may be found late; raise detect.counters",
				"rule", e.Rule, "counting_error", e.Error, "threshold", e.Threshold)
		case e.Ratio < detect.AlarmRatio/2 && a.on[e.Rule]:
			delete(a.on, e.Rule)
			a.log.Info("aggregate: counts of this rule are good again", "rule", e.Rule, "counting_error", e.Error,
				"threshold", e.Threshold)
		}
	}
}
