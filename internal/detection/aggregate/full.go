package aggregate

import (
	"log/slog"
	"time"

	"github.com/hotparam/pipeline/internal/hotset"
)

// fullAlarm logs when the hot set of a rule becomes full, and when it has had room for a minute.
type fullAlarm struct {
	log  *slog.Logger
	last map[string]time.Time // when it was last full, by rule
}

// freeAfter is how long a hot set that was full must have room before that is logged.
const freeAfter = time.Minute

func (a *fullAlarm) check(now time.Time, full []hotset.Full) {
	for _, f := range full {
		if _, known := a.last[f.Rule]; !known {
			a.log.Warn("aggregate: the hot set of a rule is full: keys over the threshold find no place and are not "+
				"limited; raise max_hot", "rule", f.Rule, "max_hot", f.Places, "unplaced", f.Unplaced)
		}
		a.last[f.Rule] = now
	}
	for rule, at := range a.last {
		if now.Sub(at) >= freeAfter {
			delete(a.last, rule)
			a.log.Info("aggregate: the hot set of a rule has room again", "rule", rule)
		}
	}
}

// Full returns the rules whose hot sets are full.
func (a *Aggregator) Full() []hotset.Full { return a.detector.Full() }
