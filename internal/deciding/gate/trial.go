package gate

import (
	"context"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// spaceTrial keeps limits on trial apart from the live ones.
const spaceTrial = "trial"

// How a limit on trial and the live one agreed.
const (
	trialSame = iota
	trialStricter
	trialLooser
)

// try judges the limits on trial, as if they were in the place of the live ones:
// also for requests that the live ones deny. They are judged in this process, a
// limit that is shared by its part of it, so that a trial never costs the shared
// store a call and never holds up a request. Requests that a per-IP window denied
// never reached the key's limit and are none of its business.
func (g *Gate) try(ctx context.Context, a *ask, v *hottype.Verdict) {
	if v.Reason == hottype.ReasonIPFixed || v.Reason == hottype.ReasonIPSliding {
		return
	}
	for i := range a.keys {
		h := a.keys[i].h
		if h == nil || h.trial == nil {
			continue
		}
		spec := *h.trial
		if h.term.shared && g.live != nil {
			spec = share(spec, max(int64(g.live()), 1))
		}
		a.trial.add(limit.Charge{
			Subject: limit.Subject{Space: spaceTrial, Name: string(a.name(i))}, Spec: spec, Cost: a.cost,
		}, meta{term: &h.term, key: i})
	}
	if a.trial.empty() {
		return
	}
	ok, err := g.local.Take(ctx, a.now, a.trial.charges, a.trial.results)
	switch {
	case err != nil:
		g.stats.localErrors.Add(1)
	case ok == v.Allowed:
		a.counters.trials[trialSame].Add(1)
	case v.Allowed:
		a.counters.trials[trialStricter].Add(1)
	default:
		a.counters.trials[trialLooser].Add(1)
	}
}
