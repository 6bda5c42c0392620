package gate

import (
	"context"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// spaceCandidate keeps candidate limits apart from the live ones.
const spaceCandidate = "candidate"

// How a candidate limits and the live one agreed.
const (
	candidateSame = iota
	candidateStricter
	candidateLooser
)

// judgeCandidates judges the candidate limits, as if they were in the place of the live ones:
// also for requests that the live ones deny. They are judged in this process, a
// limit that is shared by its part of it, so that a candidate never costs the shared
// store a call and never holds up a request. Requests that a per-IP window denied
// never reached the key's limit and are none of its business.
func (g *Gate) judgeCandidates(ctx context.Context, a *ask, v *hottype.Verdict) {
	if v.Reason == hottype.ReasonIPFixed || v.Reason == hottype.ReasonIPSliding {
		return
	}
	for i := range a.keys {
		h := a.keys[i].h
		if h == nil || h.candidate == nil {
			continue
		}
		spec := *h.candidate
		if h.term.shared && g.live != nil {
			spec = share(spec, max(int64(g.live()), 1))
		}
		a.candidates.add(limit.Charge{
			Subject: limit.Subject{Space: spaceCandidate, Name: string(a.name(i))}, Spec: spec, Cost: a.cost,
		}, meta{term: &h.term, key: i})
	}
	if a.candidates.empty() {
		return
	}
	ok, err := g.local.Take(ctx, a.now, a.candidates.charges, a.candidates.results)
	switch {
	case err != nil:
		g.stats.localErrors.Add(1)
	case ok == v.Allowed:
		a.counters.candidates[candidateSame].Add(1)
	case v.Allowed:
		a.counters.candidates[candidateStricter].Add(1)
	default:
		a.counters.candidates[candidateLooser].Add(1)
	}
}
