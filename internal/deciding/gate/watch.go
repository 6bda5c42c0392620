package gate

import (
	"context"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// A limit that only counts is watched: one in shadow mode, a candidate beside an enforced limit,
// or an override in shadow mode. It is judged when the verdict is known, so that it changes nothing
// that is enforced; by itself, as if it were the only one; and in this process, a shared limit by this
// process's share, so that it never calls the shared store. Its owner counts the requests that it
// would deny, and Verdict.WouldDeny is set if such a request is allowed.

// The spaces of limits that only count, by their owners. They are apart from those that are enforced,
// so that a limit begins anew when it is enforced.
const (
	spaceWatched   = "watched"   // limits of keys in shadow mode
	spaceCandidate = "candidate" // candidates
	spaceShadow    = "shadow"    // overrides in shadow mode, of keys and of clients
)

// candidate is a limit that is compared with the enforced one of a key.
type candidate struct {
	spec limit.Spec
	term chargePolicy
}

// watch adds a charge of a limit that only counts. Its subject is still to be filled in.
func (d *decision) watch(t *chargePolicy, key int, spec *limit.Spec) *limit.Charge {
	d.charged = true
	c := d.watched.add(chargeMeta{chargePolicy: t, key: key})
	c.Spec, c.Cost = *spec, d.cost
	if t.shared || t.async {
		c.Spec = fallbackSpec(c.Spec, d.g.processes())
	}
	return c
}

// judgeWatched judges the limits that only count. A request that was denied because of its client does not
// count for limits of its keys. A denied request counts only for limits that would replace the one that
// denied: candidates and overrides.
func (g *Gate) judgeWatched(ctx context.Context, d *decision, v *hottype.Verdict) {
	gr, nothingEnforced := &d.watched, !d.reported
	compared, admits := false, true
	for i := range gr.charges {
		m, r := &gr.meta[i], &gr.results[i]
		replaces := m.candidate || m.owner != nil
		if d.aside && m.key >= 0 || !v.Allowed && !replaces {
			continue
		}
		ok, err := g.local.Take(ctx, d.now, gr.charges[i:i+1], gr.results[i:i+1])
		if err != nil {
			g.stats.localErrors.Add(1)
			continue
		}
		if m.candidate {
			compared, admits = true, admits && ok
			continue
		}
		if m.owner != nil {
			m.owner.watched(!ok)
		} else if nothingEnforced { // so that clients see the same with and without a shadow limit
			d.reportLimit(v, m.chargePolicy, r)
			v.Mode = hottype.ModeShadow
		}
		if !ok {
			wouldDeny(v, m.reason)
		}
	}
	if compared {
		d.counters.candidate(admits, v.Allowed)
	}
}

// wouldDeny records in the verdict of an allowed request the reason that would deny it first.
func wouldDeny(v *hottype.Verdict, reason hottype.Reason) {
	if v.Allowed && !v.WouldDeny {
		v.WouldDeny, v.WouldDenyReason = true, reason
	}
}

// shadowOverrides are indexes of overrides as if those in shadow mode were enforced.
type shadowOverrides struct {
	keys, clients *rules.Overrides // nil: none in shadow mode is of them
}

func newShadowOverrides(all *rules.Overrides, list []rules.Override) (s shadowOverrides) {
	for i := range list {
		switch o := &list[i]; {
		case !o.InShadow():
		case o.OfClients():
			s.clients = all.WithShadow()
		default:
			s.keys = all.WithShadow()
		}
	}
	return s
}

func (s *shadowOverrides) any() bool { return s.keys != nil || s.clients != nil }

// watchOverrides adds the overrides in shadow mode that would decide about the request if all
// of them were enforced. Blocks need no charge and are counted at once. Fairness and refunds of a
// watched limit are left out.
func (d *decision) watchOverrides(v *hottype.Verdict) {
	if d.req.Cost < 0 {
		return
	}
	if all := d.st.shadow.clients; all != nil && !d.keysOnly {
		if o := d.clientOverride(all, v.Class); o.Override != nil && o.InShadow() {
			d.watchClient(v, &o)
		}
	}
	if all := d.st.shadow.keys; all != nil && !d.aside {
		for i := range d.keys {
			if o := all.Find(d.matches[i].Key, d.now); o != nil && o.InShadow() {
				d.watchKey(v, o, i)
			}
		}
	}
}

func (d *decision) watchClient(v *hottype.Verdict, o *clientOverride) {
	w := d.st.clientLimits[idOf(o.Override)]
	switch {
	case o.Action == rules.ActionBlock:
		o.state.watched(true)
		wouldDeny(v, hottype.ReasonBlocked)
	case w != nil && !d.client.IsZero():
		c := d.watch(&w.term, -1, &w.spec)
		c.Subject.Space, c.Subject.Client = w.space, d.client
	}
}

// watchKey adds the override of key i. A request that a response cache may answer is blocked
// before the cache is asked, and charged after.
func (d *decision) watchKey(v *hottype.Verdict, o *rules.Override, i int) {
	h, state := d.st.overrideLimit(o, d.matches[i].Rule)
	switch {
	case !h.limited && !d.keysOnly:
		state.watched(true)
		wouldDeny(v, h.term.reason)
	case h.limited && v.Cache == nil:
		if k := &d.keys[i]; k.name == "" && string(state.key) == string(d.matches[i].Key) {
			k.name = state.key
		}
		c := d.watch(&h.term, i, &h.spec)
		c.Subject.Space, c.Subject.Name = spaceShadow, string(d.name(i))
	}
}
