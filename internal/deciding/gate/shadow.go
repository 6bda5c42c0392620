package gate

import (
	"context"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// spaceCandidate keeps candidate limits apart from the live ones.
const spaceCandidate = "candidate"

// spaceShadow keeps the limits of overrides in shadow mode, of keys and of clients, apart from
// what is enforced.
const spaceShadow = "shadow"

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
	if v.Reason.Info().OfClient {
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
		*gr.add(meta{term: &h.term, key: i}) = limit.Charge{
			Subject: limit.Subject{Space: spaceCandidate, Name: string(d.name(i))}, Spec: spec, Cost: d.cost,
		}
	}
	ok, err := g.local.Take(ctx, d.now, gr.charges, gr.results)
	if err != nil {
		g.stats.localErrors.Add(1)
		return
	}
	d.counters.candidate(ok, v.Allowed)
}

// tried are the overrides as they would be if those in shadow mode were enforced.
type tried struct {
	keys, clients *rules.Overrides // nil: none in shadow mode is of them
}

func newTried(all *rules.Overrides, lists ...[]rules.Override) (t tried) {
	for _, o := range slices.Concat(lists...) {
		switch {
		case !o.InShadow():
		case o.OfClients():
			t.clients = all.Tried()
		default:
			t.keys = all.Tried()
		}
	}
	return t
}

func (t *tried) any() bool { return t.keys != nil || t.clients != nil }

// tryOverrides judges the overrides in shadow mode that would decide about the request, if all
// of them were enforced, and counts what each would do. That is done when the request is
// decided, so that nothing which is enforced is touched, and also for requests that are
// denied: an override stands in the place of what denied them. A request that was denied
// because of its client never reached the overrides of its keys.
//
// A limit is kept where the override would keep it. What its store does not answer is not
// judged. What makes room beside a limit is left out: fairness among clients, refunds.
func (g *Gate) tryOverrides(ctx context.Context, d *decision, v *hottype.Verdict) {
	if d.req.Cost < 0 {
		return
	}
	if of := d.st.tried.clients; of != nil && d.step != onlyKeys {
		if o := d.clientOverride(of, v.Class); o.Override != nil && o.InShadow() {
			g.tryClient(ctx, d, v, &o)
		}
	}
	of := d.st.tried.keys
	if of == nil || !d.reached || v.Reason.Info().OfClient {
		return
	}
	for i := range d.keys {
		if o := of.Find(d.matches[i].Key, d.now); o != nil && o.InShadow() {
			g.tryKey(ctx, d, v, o, i)
		}
	}
}

func (g *Gate) tryClient(ctx context.Context, d *decision, v *hottype.Verdict, o *clientOverride) {
	if o.Action == rules.ActionBlock {
		o.state.tried(v, true, hottype.ReasonBlocked)
		return
	}
	w := d.st.clientLimits[idOf(o.Override)]
	if w == nil || d.client.IsZero() {
		return
	}
	denied := g.wouldDeny(ctx, d, limit.Charge{
		Subject: limit.Subject{Space: w.space, Client: d.client}, Spec: w.spec, Cost: d.cost,
	}, meta{term: &w.term, key: -1})
	o.state.tried(v, denied, w.term.reason)
}

// tryKey judges the override of key i. A request that a response cache may answer is blocked
// before the cache is asked, and charged after.
func (g *Gate) tryKey(ctx context.Context, d *decision, v *hottype.Verdict, o *rules.Override, i int) {
	h, state := d.st.overrideLimit(o, d.matches[i].Rule)
	if !h.limited {
		if d.step != onlyKeys {
			state.tried(v, true, h.term.reason)
		}
		return
	}
	if v.Serve != nil {
		return
	}
	if k := &d.keys[i]; k.name == "" && string(state.key) == string(d.matches[i].Key) {
		k.name = state.key
	}
	m := meta{term: &h.term, key: i}
	if h.single {
		m.denials, m.refunds = &h.denials, h.denials.refunds.Load()
	}
	denied := g.wouldDeny(ctx, d, limit.Charge{
		Subject: limit.Subject{Space: spaceShadow, Name: string(d.name(i))}, Spec: h.spec, Cost: d.cost,
	}, m)
	state.tried(v, denied, h.term.reason)
}

// wouldDeny charges the limit of an override in shadow mode, and reports whether it denies.
func (g *Gate) wouldDeny(ctx context.Context, d *decision, c limit.Charge, m meta) bool {
	if d.cost == 1 && m.refusal(d.now.UnixNano()) != nil {
		return true
	}
	gr := &d.tried
	*gr.add(m) = c
	defer gr.cut(0)
	var ok bool
	var err error
	if m.shared {
		ok, err = g.shared.take(ctx, d, gr)
	} else if ok, err = g.local.Take(ctx, d.now, gr.charges, gr.results); err != nil {
		g.stats.localErrors.Add(1)
	}
	if err == nil && !ok {
		d.remember(gr)
	}
	return err == nil && !ok
}

// tried counts a request that the override in shadow mode was tried on.
func (o *overrideState) tried(v *hottype.Verdict, denied bool, reason hottype.Reason) {
	o.elsewhere.Add(1)
	if !denied {
		return
	}
	o.wouldDeny.Add(1)
	if v.Allowed && !v.Shadowed {
		v.Shadowed, v.ShadowReason = true, reason
	}
}
