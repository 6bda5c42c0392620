package gate

import (
	"context"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// spaceCandidate keeps candidate limits apart from the live ones.
const spaceCandidate = "candidate"

// takeShadow judges the limits in shadow mode, now that the request is admitted, as
// if they were all that is enforced. Those whose store fails are not judged.
func (g *Gate) takeShadow(ctx context.Context, d *decision, v *hottype.Verdict) {
	if !d.shadowLocal.empty() {
		ok, err := g.local.Take(ctx, d.now, d.shadowLocal.charges, d.shadowLocal.results)
		if err != nil {
			g.stats.localErrors.Add(1)
			d.shadowLocal.cut(0)
		} else if !ok {
			shadowed(v, &d.shadowLocal)
			d.shadowShared.cut(0)
		}
	}
	if d.shadowShared.empty() {
		return
	}
	ok, err := g.shared.take(ctx, d, &d.shadowShared)
	if err != nil {
		d.shadowShared.cut(0)
	} else if !ok {
		shadowed(v, &d.shadowShared)
		g.refund(d, g.local, &d.shadowLocal)
	}
}

// shadowed notes that a group in shadow mode would have denied, for the reason of the
// first that did.
func shadowed(v *hottype.Verdict, gr *group) {
	v.Shadowed = true
	for i := range gr.results {
		if !gr.results[i].Allowed {
			v.ShadowReason = gr.meta[i].reason
			return
		}
	}
}

// countCandidates judges the candidate limits, as if they were in the place of the live
// ones: also for requests that the live ones deny. They are judged in this process, a
// limit that is shared by its part of it, so that a candidate never costs the shared
// store a call and never holds up a request. Requests that a per-IP window denied
// never reached the key's limit and do not count.
func (g *Gate) countCandidates(ctx context.Context, d *decision, v *hottype.Verdict) {
	if v.Reason == hottype.ReasonIPFixed || v.Reason == hottype.ReasonIPSliding {
		return
	}
	gr := &d.candidates
	for i := range d.keys {
		h := d.keys[i].h
		if h == nil || h.candidate == nil {
			continue
		}
		spec := *h.candidate
		if h.term.shared {
			spec = share(spec, g.processes())
		}
		gr.add(limit.Charge{
			Subject: limit.Subject{Space: spaceCandidate, Name: string(d.name(i))}, Spec: spec, Cost: d.cost,
		}, meta{term: &h.term, key: i})
	}
	if gr.empty() {
		return
	}
	ok, err := g.local.Take(ctx, d.now, gr.charges, gr.results)
	if err != nil {
		g.stats.localErrors.Add(1)
		return
	}
	d.counters.candidate(ok, v.Allowed)
}
