package detect

import (
	"time"

	"github.com/hotparam/pipeline/internal/report"
)

// Use returns the use of each rule by requests, as recorded from their keys.
func (d *Detector) Use() []report.RuleUse {
	d.rules.RLock()
	defer d.rules.RUnlock()
	return d.uses.List()
}

// MergeUse adds the use that other aggregators recorded, because they count keys of the same rules.
func (d *Detector) MergeUse(now time.Time, list []report.RuleUse) {
	d.rules.RLock()
	defer d.rules.RUnlock()
	d.uses.Merge(now.Unix(), list)
}
