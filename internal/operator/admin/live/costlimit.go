package live

import (
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// viewCostLimit returns a limit by cost.
func viewCostLimit(cost hottype.Cost, s limit.Spec, mode hottype.Mode, scope rules.Scope) *limitView {
	v := viewSpec(s, mode, scope)
	v.Cost, v.Burst, v.Text = cost, s.Capacity(), rules.DescribeCostLimit(cost, s)
	if mode == hottype.ModeShadow {
		v.Text += " (shadow)"
	}
	return v
}

// viewOverride returns the limit of an override with ActionLimit for keys of a rule, which may be nil.
func viewOverride(rule *rules.Rule, o *rules.Override) *limitView {
	if rule != nil && rule.Cost != "" {
		return viewCostLimit(rule.Cost, o.Spec(rule.Cost), hottype.ModeEnforce, "")
	}
	return viewSpec(o.Spec(""), hottype.ModeEnforce, "")
}
