package detect

import (
	"time"

	"github.com/hotparam/pipeline/internal/report"
)

// Use returns what was seen of the requests of each rule, by their keys.
func (d *Detector) Use() []report.RuleUse {
	d.rules.RLock()
	defer d.rules.RUnlock()
	return d.uses.List()
}

// MergeUse takes what others have seen of the requests of rules: they count keys of the same rules.
func (d *Detector) MergeUse(now time.Time, list []report.RuleUse) {
	d.rules.RLock()
	defer d.rules.RUnlock()
	d.uses.Merge(now.Unix(), list)
}
