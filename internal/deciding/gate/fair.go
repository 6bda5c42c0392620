package gate

import (
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/fairness"
)

// fairShare is how the limit of one key is divided among clients.
type fairShare struct {
	key    *fairness.Key
	header string // that names the client; "": the address
}

// divide divides the limit of a key if its rule says so. A key that had the same limit
// before keeps the credits of its clients.
func (h *keyLimit) divide(fair bool, header string, before *keyLimit) {
	if !fair || !h.limited || h.term.shadow || !h.single || !fairness.Divides(h.spec) {
		return
	}
	if before != nil && before.fair != nil && before.spec == h.spec && before.fair.header == header {
		h.fair = before.fair
		return
	}
	h.fair = &fairShare{fairness.NewKey(h.spec), header}
}

// client is who asks, as the rule names clients.
func (f *fairShare) client(d *decision) hottype.Client {
	if f.header != "" && d.req.Header != nil {
		if name := d.req.Header.Get(f.header); name != "" {
			return hottype.Client{Name: name}
		}
	}
	return d.client
}

// askFair asks for the client's share of each key that is divided. It comes before the
// stores, because it costs nothing and can be given back.
func (g *Gate) askFair(d *decision, v *hottype.Verdict) bool {
	if !d.divided {
		return true
	}
	for i := range d.keys {
		k := &d.keys[i]
		if k.fair == nil {
			continue
		}
		if k.share = k.fair.key.Ask(d.now, k.fair.client(d), d.cost); k.share.Allowed {
			continue
		}
		deny(v, hottype.ReasonFair, k.h.term.rule, k.share.RetryAfter)
		v.Key, v.Limit, v.Window, v.ResetAfter = d.name(i), k.h.spec.Capacity(), k.h.term.window, k.share.ResetAfter
		k.count(false)
		d.giveBackShares()
		return false
	}
	return true
}

// settleFair ends what askFair began. Who is not admitted has paid nothing.
func (g *Gate) settleFair(d *decision, admitted bool) {
	switch {
	case !d.divided:
	case admitted:
		d.tellAdmitted(&d.local, 1)
		d.tellAdmitted(&d.fallback, 1)
		d.tellAdmitted(&d.shared, g.processes())
	default:
		d.giveBackShares()
	}
}

// tellAdmitted tells fairness the levels of the buckets of a group that has let the
// request in.
func (d *decision) tellAdmitted(gr *group, limiters int64) {
	for i := range gr.meta {
		if f := d.fairOf(gr.meta[i].key); f != nil {
			f.key.Admitted(d.now, d.level(&gr.charges[i].Spec, &gr.results[i], limiters))
		}
	}
}

// tellRefused tells fairness which limits of a group have denied the request.
func (d *decision) tellRefused(gr *group, limiters int64) {
	for i := range gr.meta {
		r, f := &gr.results[i], d.fairOf(gr.meta[i].key)
		if f == nil || r.Allowed || r.RetryAfter == hottype.Never {
			continue
		}
		k := &d.keys[gr.meta[i].key]
		f.key.Refused(d.now, d.level(&gr.charges[i].Spec, r, limiters), f.client(d), d.cost, k.share)
		k.share.Charged = false
	}
}

// fairOf is how key i is divided, nil where it is not; -1 is no key.
func (d *decision) fairOf(i int) *fairShare {
	if i < 0 {
		return nil
	}
	return d.keys[i].fair
}

func (d *decision) level(s *limit.Spec, r *limit.Result, limiters int64) fairness.Level {
	return fairness.LevelOf(s, r, limiters, d.prefetched)
}

func (d *decision) giveBackShares() {
	for i := range d.keys {
		if k := &d.keys[i]; k.share.Charged {
			k.share.Charged = false
			k.fair.key.GiveBack(k.fair.client(d), d.cost)
		}
	}
}
