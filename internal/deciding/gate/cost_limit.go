package gate

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// A limit by cost is charged one unit before a request, of a microsecond, a byte or a thousandth, and the rest when the
// cost is known. The rest may exceed the limit by a debt, which is a reserve of its bucket: requests leave the reserve
// to the costs, so that no request is allowed until the debt has run back. The sum of the charges is the sum of the
// costs. No cost is estimated but the costs of requests whose callers do not measure.
//
// A bound on requests in flight limits the costs that are not known yet.

// costBefore returns the charge before a request, to which its caller has assigned a cost.
func (b *boundLimit) costBefore(cost int64) int64 {
	if b.cost != "" {
		return 1
	}
	return cost
}

// inUnits converts counts of a limit to the unit of Verdict.Limit.
func (b *boundLimit) inUnits(counts int64) int64 {
	if b.cost == "" || b.cost.Unit() < 1000 {
		return counts
	}
	return counts / 1000
}

// boundByMean returns a bound of as many requests in flight as the limit allows at once at the mean cost of the key. It
// is 1 while nothing is known about the costs of the rule.
func (g *Gate) boundByMean(f *inFlight, m rules.Match, of *boundLimit) *inFlight {
	bound := *f
	bound.Limit = 1
	if mean, known := g.costs.MeanOf(m.Key, m.Rule.Name); known {
		bound.Limit = min(max(1, of.spec.Capacity()/max(1, mean)), rules.MaxInFlight)
	}
	return &bound
}

// costCharge is a limit of a key to which the cost of an allowed request is charged.
type costCharge struct {
	limit.Charge
	shared bool // kept by the shared store
	// spare is true for this process's share of a limit that the shared store keeps, which decides only when that store
	// fails.
	spare bool
}

// chargerOf returns the function that charges the limits of key i for the cost of the request, or nil if no limit of
// the key charges the cost.
func (g *Gate) chargerOf(d *decision, i int) func(now time.Time, cost int64) {
	charges := d.costCharges(i)
	if len(charges) == 0 {
		return nil
	}
	return func(now time.Time, cost int64) { g.chargeCost(now, charges, cost) }
}

// costCharges returns the limits of key i that charge the cost of the request.
func (d *decision) costCharges(i int) (charges []costCharge) {
	for _, gr := range []*chargeGroup{&d.local, &d.shared, &d.fallback, &d.watched} {
		for k, m := range gr.meta {
			if m.key != i || m.cost == "" {
				continue
			}
			c := costCharge{Charge: gr.charges[k], shared: gr == &d.shared}
			charges = append(charges, c)
			if c.shared && m.policy == rules.FailLocal { // as in chargeFallback
				c.shared, c.spare, c.Spec = false, true, fallbackSpec(c.Spec, d.g.processCount())
				charges = append(charges, c)
			}
		}
	}
	return charges
}

// chargeMeans charges an allowed request that is not measured the mean costs of its keys.
func (g *Gate) chargeMeans(d *decision) {
	for i := range d.keys {
		if m := d.matches[i]; d.countsCost(m) {
			if mean, known := g.costs.MeanOf(m.Key, m.Rule.Name); known {
				g.chargeCost(d.now, d.costCharges(i), mean)
			}
		}
	}
}

// chargeCost charges the rest of a cost, of which one unit was charged before the request. A part that does not fit
// into the debt is forgiven.
func (g *Gate) chargeCost(now time.Time, charges []costCharge, cost int64) {
	for _, c := range charges {
		if c.Cost = cost - 1; c.Cost <= 0 {
			continue
		}
		c.Spec.Reserve = 0
		if c.shared {
			if g.cfg.Settlements != nil {
				g.cfg.Settlements.Charge(c.Charge)
			}
			continue
		}
		n, _, err := limit.TakeUpTo(context.Background(), g.cfg.Local, now, c.Charge)
		switch {
		case err != nil:
			g.stats.localErrors.Add(1)
		case n < c.Cost && !c.spare:
			g.stats.forgiven.Add(1)
		}
	}
}
