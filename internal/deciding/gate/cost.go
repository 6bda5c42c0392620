package gate

import (
	"cmp"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// measureCosts makes the caller measure an allowed request whose rules count by cost, and counts the mean cost of other
// requests. All requests for an upstream whose workers are known are measured, because they wait for each other.
//
// A request that a response cache may answer counts the mean as well, so that its key does not cool because the cache
// answers. If it goes to the upstream, ChargeKeys measures it, and only the cost beyond the mean counts.
func (g *Gate) measureCosts(d *decision, v *verdict.Verdict) {
	if d.req.Cost > 1 {
		g.warnOfGivenCost(d)
	}
	switch isMeasured := v.Allowed && v.Cache == nil && d.releases; {
	case isMeasured:
		if w := g.newWork(d); w != nil {
			v.SetWork(w)
		}
	default:
		if !d.keysOnly { // else DecideForCache has counted it
			g.countMeans(d)
		}
		if v.Allowed {
			g.chargeMeans(d)
		}
	}
}

// warnOfGivenCost counts a request with a cost of its caller, which rules with a cost of their own ignore, and logs the
// first such request of each rule.
func (g *Gate) warnOfGivenCost(d *decision) {
	for _, m := range d.matches {
		if !d.countsCost(m) {
			continue
		}
		g.stats.ignoredCosts.Add(1)
		if _, warned := g.warned.LoadOrStore(m.Rule.Name, true); !warned {
			g.cfg.Log.Warn("gate: the cost that a caller gave a request before its response counts as one request of a rule "+
				"with a cost", "rule", m.Rule.Name, "counts", m.Rule.Cost, "given", d.req.Cost)
		}
	}
}

// newWork returns the work on an allowed request, or nil if it is not measured.
func (g *Gate) newWork(d *decision) (w *costs.Work) {
	upstream := cmp.Or(d.class.upstream, hottype.DefaultUpstream)
	if g.costs.HasLine(upstream) || slices.ContainsFunc(d.matches, d.countsCost) {
		w = g.costs.NewWork(d.now, upstream, g.processCount(), d.client)
	}
	for i, m := range d.matches {
		if d.countsCost(m) {
			w.AddKey(hottype.Key(m.Key), m.Rule, d.keysOnly, g.chargerOf(d, i))
		}
	}
	return w
}

// countMeans counts a request that is not measured by the mean cost of its keys.
func (g *Gate) countMeans(d *decision) {
	for _, m := range d.matches {
		if d.countsCost(m) {
			g.costs.CountMean(d.now.Unix(), m.Key, m.Rule.Name, 1, d.client)
		}
	}
}

// countsCost reports whether a request counts by its cost under a key.
func (d *decision) countsCost(m rules.Match) bool {
	return m.Rule.Cost != "" && (!d.req.ParamsUnknown || !m.Rule.ReadsQuery())
}
