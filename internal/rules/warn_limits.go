package rules

import "github.com/hotparam/pipeline/hotparam/hottype"

// warnOfLimits warns about limits of a rule that deny less than they seem to.
func (p *parser) warnOfLimits() {
	for i, r := range p.set.Rules {
		// The rate of a limit with priority is the capacity behind it, and keys are hot before they reach the capacity.
		if l := r.Limit; l.Set && l.Adaptive == nil && len(l.Priority) == 0 && l.Mode != hottype.ModeShadow &&
			r.Hot.Rate > 0 &&
			float64(l.Spec.Limit)/l.Spec.Window.Seconds() > r.Hot.Rate*float64(r.Cost.Unit())*(1+1e-6) {
			p.rules[i].At("limit").Warn("it allows more than makes a key hot (hot.rate %s): a key is hot from there on and "+
				"is not limited before the limit; give a limit that is not above hot.rate", r.formatRate(r.Hot.Rate))
		}
		if r.Hot.MinClients > 1 && r.PerClient == nil && !p.set.LimitsClients() {
			p.rules[i].At("hot").Warn("min_clients makes a loop of a key that fewer clients ask for, which is not limited, " +
				"and no ip or class limits its clients; give ip.fixed, ip.sliding or per_client")
		}
	}
}
