package gate

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// closedRetry is how long a request waits that was denied because the shared
	// store failed: the time in which the store has usually come back.
	closedRetry = time.Second
)

// applyPolicies decides about charges whose store failed, each by on_store_failure of
// its rule. One closed charge denies the request. Those of policy local go to shares,
// cut down to this process's share; without shares, and for all others, they pass.
// The charges leave failed.
func (g *Gate) applyPolicies(d *decision, v *hottype.Verdict, failed, shares *group) bool {
	if failed.empty() {
		return true
	}
	for _, m := range failed.meta {
		if m.policy == rules.FailClosed {
			deny(v, hottype.ReasonStore, m.rule, closedRetry)
			v.Key = d.keyFor(m.key)
			return false
		}
	}
	live := g.processes()
	for i, m := range failed.meta {
		if shares != nil && m.policy != rules.FailOpen {
			c := shares.add(m)
			*c = failed.charges[i]
			c.Spec = share(c.Spec, live)
			continue
		}
		v.Reason, v.Rule = hottype.ReasonStore, m.rule
	}
	failed.cut(0)
	return true
}

// chargeShares charges this process's shares of the keys' limits for what the shared
// store has admitted, as far as they bear it, so that a store which fails does
// not grant every process a full bucket beside what it had already: not at the
// first time and not at each of many. Per-IP windows are left out: there are as many
// as clients.
func (g *Gate) chargeShares(ctx context.Context, d *decision) {
	one := &d.fallback
	before, live := len(one.charges), g.processes()
	for i, m := range d.shared.meta { // each by itself: one that bears no more keeps no other from it
		if m.key < 0 || m.policy != rules.FailLocal {
			continue
		}
		c := one.add(m)
		*c = d.shared.charges[i]
		c.Spec = share(c.Spec, live)
		c.Spec.Wait, c.Spec.Block, c.Spec.BlockMax = 0, 0, 0 // nobody is held back or denied here
		if _, err := g.local.Take(ctx, d.now, one.charges[before:], one.results[before:]); err != nil {
			g.stats.localErrors.Add(1)
		}
		one.cut(before) // it is no part of this decision
	}
}

// processes is how many share the limits, this one included.
func (g *Gate) processes() int64 {
	if g.live == nil {
		return 1
	}
	return max(int64(g.live()), 1)
}

// share is the part of a limit that one of n processes enforces by itself.
func share(s limit.Spec, n int64) limit.Spec { return limit.Spec(limitcore.Spec(s).Share(n)) }
