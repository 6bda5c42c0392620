package gate

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// maxRefundAge is the age from which on a charge is not refunded, because most of its tokens are refilled.
const maxRefundAge = time.Hour

// Settlements refunds charges of the shared store, and charges costs to it, when responses are known. Its methods
// neither wait nor fail. *redislimits.Settlements implements it.
type Settlements interface {
	// Refund refunds a charge that was made at time at by this process's clock.
	Refund(at time.Time, c limit.Charge)
	// Charge charges as much of a cost as fits.
	Charge(c limit.Charge)
}

// setRefund fills in the charges that the status of the response may refund.
func (d *decision) setRefund(v *verdict.Verdict) {
	if !d.releases {
		return // the caller does not report the status
	}
	r := &verdict.Refund{At: d.now}
	d.addCharged(r, &d.local, verdict.ChargedLocal)
	d.addCharged(r, &d.shared, verdict.ChargedShared)
	d.addCharged(r, &d.fallback, verdict.ChargedFallback)
	if len(r.Charges) > 0 {
		v.SetRefund(r)
	}
}

func (d *decision) addCharged(r *verdict.Refund, gr *chargeGroup, kept verdict.ChargeStore) {
	for i, m := range gr.meta {
		if m.key >= 0 && d.keys[m.key].h.refund != nil {
			r.Charges = append(r.Charges, verdict.KeyCharge{
				Key: d.keyName(m.key), Cost: gr.charges[i].Cost, Store: kept, Statuses: *d.keys[m.key].h.refund,
			})
		}
	}
}

// Refund refunds the charges that the status of a response refunds. Tokens that are refilled are not refunded again,
// nor are charges of another limit. Call it once for each refund.
func (g *Gate) Refund(now time.Time, r *verdict.Refund, status int) {
	st, age := g.cur.Load(), now.Sub(r.At)
	if age > maxRefundAge {
		return
	}
	for i := range r.Charges {
		c := &r.Charges[i]
		if !c.Statuses.Contains(status) || c.Cost <= 0 {
			continue
		}
		g.denials.invalidateDenials(string(c.Key))
		spec, ok := st.specOf(now, c.Key)
		g.eachLimit(st, now, c.Key, func(h *keyLimit) {
			if h.limited && !h.shadow { // also if the rate adapts
				spec, ok = h.limit.spec, true
			}
		})
		if !ok {
			continue
		}
		charge := limit.Charge{Subject: limit.Subject{Space: spaceHot, Name: string(c.Key)}, Spec: spec, Cost: c.Cost}
		switch {
		case c.Store == verdict.ChargedShared && g.cfg.Settlements != nil:
			g.cfg.Settlements.Refund(r.At, charge)
		case c.Store == verdict.ChargedFallback:
			charge.Spec = fallbackSpec(spec, g.processCount())
			fallthrough
		case c.Store == verdict.ChargedLocal:
			g.cfg.Local.RefundAt(r.At, []limit.Charge{charge})
		}
		g.stats.refunded.Add(uint64(c.Cost))
	}
}

// specOf returns the limit of a key while the key is hot, or the limit of its override.
func (st *state) specOf(now time.Time, key hottype.Key) (limit.Spec, bool) {
	r := st.set.RuleFor(key.Resource())
	if r == nil {
		return limit.Spec{}, false
	}
	if o := st.overrides.Find([]byte(key), now); o != nil && o.Action == rules.ActionLimit {
		return o.Spec(r.Cost), true
	}
	l := r.LimitFor(key)
	return l.Spec, l.Set
}

// eachLimit calls f with the memoised limits of a key, hot or not.
func (g *Gate) eachLimit(st *state, now time.Time, key hottype.Key, f func(*keyLimit)) {
	names := [][]byte{[]byte(key)}
	if alias, ok := canon.Alias([]byte(key), nil); ok {
		names = append(names, alias)
	}
	for _, name := range names {
		if e := g.cfg.Hot.Lookup(name, now); e != nil {
			if memo := e.Memo.Load(); memo != nil {
				if h, ok := memo.Value.(*keyLimit); ok {
					f(h)
				}
			}
		}
	}
	for o := range st.eachOverride() {
		if memo := o.memo.Load(); memo != nil && o.key == key {
			f(memo)
		}
	}
	for _, h := range st.malformed {
		if h.malformedKey == key {
			f(h)
		}
	}
}
