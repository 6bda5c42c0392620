package live

import (
	"fmt"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// viewCostLimit returns a limit by cost with its bound of requests in flight: one unit, such as a second of time, in so
// many milliseconds. Its burst is a number as overrides have it.
func viewCostLimit(cost hottype.Cost, s limit.Spec, f *rules.InFlight, mode hottype.Mode,
	scope rules.Scope) *limitView {
	text := rules.DescribeCostLimit(cost, s)
	if f.Limit > 0 {
		text += fmt.Sprintf(", %d in flight", f.Limit)
	}
	v := viewText(text, s, mode, scope)
	v.Cost, v.Burst, v.InFlight = cost, s.Capacity(), f.Limit
	v.Limit, v.WindowMS = 1, 1000*s.Window.Seconds()*float64(cost.Unit())/float64(s.Limit)
	if cost.ResponseField() != "" {
		v.Burst /= cost.Unit()
	}
	return v
}

// viewOverride returns the limit of an override with ActionLimit for keys of a rule, which may be nil.
func viewOverride(rule *rules.Rule, o *rules.Override) *limitView {
	if rule != nil && rule.Cost != "" {
		return viewCostLimit(rule.Cost, o.Spec(rule.Cost), o.InFlight(rule), hottype.ModeEnforce, "")
	}
	return viewSpec(o.Spec(""), hottype.ModeEnforce, "")
}

// costsOf returns the costs of the rules that count another cost than requests, by their names.
func costsOf(set *rules.Set) map[string]hottype.Cost {
	costs := map[string]hottype.Cost{}
	for _, r := range set.Rules {
		if !r.Cost.IsRequests() {
			costs[r.Name] = r.Cost
		}
	}
	return costs
}
