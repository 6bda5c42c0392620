package detect

import "github.com/hotparam/pipeline/internal/hotset"

// findFull returns the rules that have more hot keys than places; views are the hot keys of a Tick, by rule.
func findFull(states []*ruleState, views [][]view) (full []hotset.Full) {
	for i, h := range states {
		if n := len(views[i]) - h.compiled.maxHot; n > 0 {
			full = append(full, hotset.Full{Rule: h.compiled.rule.Name, Places: h.compiled.maxHot, Unplaced: n})
		}
	}
	return full
}

// Full returns the rules whose hot sets were full at the last Tick. The result is not changed later.
func (d *Detector) Full() []hotset.Full {
	d.judging.Lock()
	defer d.judging.Unlock()
	return d.full
}
