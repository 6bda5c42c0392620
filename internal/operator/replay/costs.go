package replay

import (
	"context"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
)

// decide decides about a request. A rule with a cost counts the cost that the line has, and its limit charges it; the
// time counts at the end of the request, when its line was written.
func (e *engine) decide(ctx context.Context, s *Seen, req *hottype.Request) {
	if !e.hasCosts {
		e.decided = e.gate.Decide(ctx, s.At, req)
		return
	}
	v := e.gate.Begin(ctx, s.At, req, true)
	e.decided = v.Verdict
	if w := v.Reports.Work(); w != nil {
		w.Give(costs.Given(s.Costs))
		w.End(s.At, -1, false)
	}
	if v.Lease != nil {
		e.gate.Release(s.At, v.Lease)
	}
	e.seen.Time, e.seen.Bytes = max(e.seen.Time, s.Costs.Time), max(e.seen.Bytes, s.Costs.Bytes)
	e.seen.Cost = max(e.seen.Cost, s.Costs.Cost)
}

// rulesWithoutCosts returns the names of the rules whose cost no line had.
func (e *engine) rulesWithoutCosts() (names []string) {
	for _, r := range e.gate.Rules().Rules {
		if _, known := e.seen.CostBy(r.Cost); r.Cost != "" && !known {
			names = append(names, r.Name)
		}
	}
	return names
}

// countsCost reports whether a rule that counts another cost than requests matches a request.
func (e *engine) countsCost(req *hottype.Request) bool {
	return e.hasCosts && len(e.gate.Rules().Match(req, &e.scratch)) > 0
}
