package gate

import (
	"context"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// A limit that only counts is watched: a limit or an override in shadow mode. It is judged when the verdict is known,
// so that it changes nothing that is enforced; by itself, as if it were the only one; and in this process, a shared
// limit by this process's share, so that it never calls the shared store. An override counts the requests that it
// would deny, and Verdict.WouldDeny is set if such a request is allowed.

// The spaces of limits that only count, by their owners. They are apart from the spaces of limits that are enforced, so
// that a limit begins empty when it is enforced.
const (
	spaceWatched = "watched" // limits of keys in shadow mode
	spaceShadow  = "shadow"  // overrides in shadow mode, of keys and of clients
)

// judgeWatched judges the limits that only count. A denied request counts only for overrides, because they would
// replace the limit that denied.
func (g *Gate) judgeWatched(ctx context.Context, d *decision, v *verdict.Verdict) {
	gr, nothingEnforced := &d.watched, !d.reported
	for i := range gr.charges {
		m, r := &gr.meta[i], &gr.results[i]
		if !v.Allowed && m.owner == nil {
			continue
		}
		ok, err := g.cfg.Local.Take(ctx, d.now, gr.charges[i:i+1], gr.results[i:i+1])
		if err != nil {
			g.stats.localErrors.Add(1)
			continue
		}
		if m.owner != nil {
			m.owner.countWatched(!ok)
		} else if nothingEnforced { // so that clients see the same with and without a shadow limit
			d.reportLimitOfKey(v, m.boundLimit, r)
			v.Mode = hottype.ModeShadow
		}
		if !ok {
			if v.Allowed && !v.WouldDeny {
				d.wouldDeny = r
			}
			if m.key >= 0 {
				d.keys[m.key].wouldDeny = true
			}
			recordWouldDeny(v, m.reason, m.rule)
		}
	}
}

// recordWouldDeny records in the verdict of an allowed request the first denial in shadow mode: rule is the
// Verdict.Rule of that denial.
func recordWouldDeny(v *verdict.Verdict, reason hottype.Reason, rule string) {
	if v.Allowed && !v.WouldDeny {
		v.WouldDeny, v.WouldDenyReason, v.WouldDenyRule = true, reason, rule
	}
}

// watchOverrides adds the overrides in shadow mode that would decide about the request if all of them were enforced.
// Blocks need no charge and are counted at once. Fairness and refunds of a watched limit are left out.
func (d *decision) watchOverrides(v *verdict.Verdict) {
	if d.req.Cost < 0 {
		return
	}
	if o := d.findClientOverride(d.st.shadow, v.Class); !d.keysOnly && o.Override != nil && o.InShadow() {
		d.watchClient(v, &o)
	}
	for i := range d.keys {
		if o := d.st.shadow.Find(d.matches[i].Key, d.now); !d.withoutKeys && o != nil && o.InShadow() {
			d.watchKey(v, o, i)
		}
	}
}

func (d *decision) watchClient(v *verdict.Verdict, o *clientOverride) {
	w := d.st.overrideSlot(o.Override).clientLimit
	switch {
	case o.Action == rules.ActionBlock:
		o.state.countWatched(true)
		recordWouldDeny(v, hottype.ReasonBlocked, o.state.id)
	case w != nil && !d.client.IsZero():
		d.addCharge(w, -1, true)
	}
}

// watchKey adds the override of key i. A request that a response cache may answer is blocked before the cache is asked,
// and charged after.
func (d *decision) watchKey(v *verdict.Verdict, o *rules.Override, i int) {
	h, state := d.st.overrideLimit(o, d.matches[i].Rule)
	switch {
	case !h.limited && !d.keysOnly:
		d.keys[i].wouldDeny = true
		state.countWatched(true)
		recordWouldDeny(v, h.limit.reason, h.rule)
	case h.limited && v.Cache == nil:
		if k := &d.keys[i]; k.name == "" && string(state.key) == string(d.matches[i].Key) {
			k.name = state.key
		}
		d.addCharge(&h.limit, i, true)
	}
}
