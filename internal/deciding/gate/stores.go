package gate

import (
	"context"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/rules"
)

// closedRetry is the RetryAfter of a request that was denied because the shared store failed: the store has usually
// recovered by then.
const closedRetry = time.Second

// takeInProcess takes the charges of a group from an index on, in a store of this process. If the store fails, the
// failure policies decide, and the charges leave the group.
func (g *Gate) takeInProcess(ctx context.Context, d *decision, v *verdict.Verdict, store limit.Store, gr *chargeGroup,
	from int) bool {
	rest := chargeGroup{charges: gr.charges[from:], results: gr.results[from:], meta: gr.meta[from:]}
	ok, err := store.Take(ctx, d.now, rest.charges, rest.results)
	switch {
	case err != nil:
		g.stats.localErrors.Add(1)
		ok = g.failOver(d, v, gr, from, nil, nil)
	case ok:
		gr.taken = true
	default:
		d.denyGroup(v, &rest)
	}
	return ok
}

// takeAsync takes charges in the store that exchanges sums. A client whose sums in other processes are unknown is
// limited to this process's share of its limit, or by the failure policy. For failOver, a stale sum is a failure of the
// store. The charges to this process's share stay in the group async, because the same store takes them from memory.
func (g *Gate) takeAsync(ctx context.Context, d *decision, v *verdict.Verdict) bool {
	stale := func(c *limit.Charge) bool { return !g.cfg.Async.Fresh(d.now, &c.Subject) }
	return g.failOver(d, v, &d.async, 0, stale, &d.async) &&
		(d.async.isEmpty() || g.takeInProcess(ctx, d, v, g.cfg.Async, &d.async, 0))
}

// takeShared takes charges in the shared store. If a server of it fails, the failure policies decide about the charges
// on that server, and the store is called again for the others. The fallback is charged first, because it can be
// refunded.
func (g *Gate) takeShared(ctx context.Context, d *decision, v *verdict.Verdict) bool {
	gr := &d.shared
	for !gr.isEmpty() {
		ok, err := g.shared.Take(ctx, &d.call, d.now, gr.charges, gr.results)
		if err == nil && ok {
			g.chargeFallback(ctx, d)
			return true
		}
		if err == nil {
			d.denyGroup(v, gr)
			return false
		}
		failed := func(c *limit.Charge) bool { return g.shared.Failed(&d.call, c) }
		if !slices.ContainsFunc(gr.charges, func(c limit.Charge) bool { return failed(&c) }) {
			failed = nil // all: the failed charges have moved to other servers meanwhile
		}
		before := len(d.fallback.charges)
		if !g.failOver(d, v, gr, 0, failed, &d.fallback) || len(d.fallback.charges) > before &&
			!g.takeInProcess(ctx, d, v, g.cfg.Local, &d.fallback, before) {
			d.fallback.truncateTo(before)
			return false
		}
	}
	return true
}

// failOver decides about the charges of a group, from an index on, whose store failed: all of them, or the charges for
// which failed is true. on_store_failure of the rule decides about each charge: closed denies the request, open allows
// it, and local replaces the charge by a charge to this process's share of the limit, which it adds to the group
// fallback. Charges that are allowed or replaced leave gr. If fallback is gr itself, a charge is replaced in its place,
// and does not leave gr. If fallback is nil, as when a store of this process failed, local allows the request, too.
func (g *Gate) failOver(d *decision, v *verdict.Verdict, gr *chargeGroup, from int, failed func(*limit.Charge) bool,
	fallback *chargeGroup) bool {
	kept := from
	for i := from; i < len(gr.charges); i++ {
		c, m := gr.charges[i], gr.meta[i]
		switch {
		case failed != nil && !failed(&gr.charges[i]):
		case m.policy == rules.FailClosed:
			d.denyKey(v, m.boundLimit, m.key, closedRetry)
			v.Reason, v.Window = hottype.ReasonStore, 0
			return false
		case m.policy == rules.FailOpen || fallback == nil:
			v.Reason, v.Rule = hottype.ReasonStore, m.rule
			continue
		default:
			c.Spec, m.memory = fallbackSpec(c.Spec, g.processCount()), memory{}
			if fallback != gr {
				*fallback.add(m) = c
				continue
			}
		}
		gr.charges[kept], gr.meta[kept] = c, m
		kept++
	}
	gr.truncateTo(kept)
	return true
}

// chargeFallback charges this process's shares of the keys' limits for the charges that the shared store has allowed,
// as far as they have room. Otherwise each outage of the store would grant every process a full bucket in addition to
// the tokens that it has used already. Per-IP windows are left out, because there are as many as clients.
func (g *Gate) chargeFallback(ctx context.Context, d *decision) {
	fallback := &d.fallback
	before, live := len(fallback.charges), g.processCount()
	for i, m := range d.shared.meta { // one by one: a share without room does not prevent the other charges
		if m.key < 0 || m.policy != rules.FailLocal {
			continue
		}
		c := fallback.add(m)
		*c = d.shared.charges[i]
		c.Spec = fallbackSpec(c.Spec, live)
		c.Spec.Wait, c.Spec.Block, c.Spec.BlockMax = 0, 0, 0 // nothing is delayed or denied here
		if _, err := g.cfg.Local.Take(ctx, d.now, fallback.charges[before:], fallback.results[before:]); err != nil {
			g.stats.localErrors.Add(1)
		}
		fallback.truncateTo(before) // it is not part of this decision
	}
}

// refundGroup undoes the charges of a group in a store of this process, for a request that is denied.
func (g *Gate) refundGroup(d *decision, store Refunder, gr *chargeGroup) {
	if !gr.taken {
		return
	}
	store.RefundAt(d.now, gr.charges)
	for i := range gr.charges {
		if s := &gr.charges[i].Subject; s.Name != "" && s.Client.IsZero() {
			g.denials.invalidateDenials(s.Name)
		}
	}
}

// processCount returns the number of processes that share the limits, including this process.
func (g *Gate) processCount() int64 {
	if g.cfg.Limiters == nil {
		return 1
	}
	return max(int64(g.cfg.Limiters()), 1)
}

// fallbackSpec returns the part of a limit that one of n processes enforces by itself.
func fallbackSpec(s limit.Spec, n int64) limit.Spec { return limit.Spec(limitcore.Spec(s).Share(n)) }
