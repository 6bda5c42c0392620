package gate

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rules"
)

// closedRetry is how long a request waits that was denied because the shared
// store failed: the time in which the store has usually come back.
const closedRetry = time.Second

// maxShareWindow is within what limit.Spec.Validate takes.
const maxShareWindow = 365 * 24 * time.Hour

// take asks the stores for all charges, all or nothing, and fills in the
// verdict. It reports whether the request is admitted.
func (g *Gate) take(ctx context.Context, a *ask, v *hotparam.Verdict) bool {
	if !a.local.empty() {
		alone := len(a.local.charges) == 1 // else asking costs little more, and says who denied first
		if alone && a.remembered(v, &a.local) {
			return false
		}
		ok, err := g.local.Take(ctx, a.now, a.local.charges, a.local.results)
		if err != nil {
			g.stats.localErrors.Add(1)
			if !g.unjudged(a, v, &a.local, false) {
				return false
			}
		} else if !ok {
			if alone {
				a.remember(&a.local)
			}
			g.refuse(a, v, &a.local)
			return false
		}
	}
	if !a.shared.empty() && !g.takeShared(ctx, a, v) {
		g.giveBack(a, &a.local)
		return false
	}
	g.watch(ctx, a, v)
	report(a, v)
	return true
}

// takeShared asks the shared store, and where it fails, each rule's policy.
func (g *Gate) takeShared(ctx context.Context, a *ask, v *hotparam.Verdict) bool {
	if a.remembered(v, &a.shared) {
		return false
	}
	ok, err := g.shared.take(ctx, a, &a.shared)
	if err == nil {
		if !ok {
			a.remember(&a.shared)
			g.refuse(a, v, &a.shared)
		}
		return ok
	}
	if !g.unjudged(a, v, &a.shared, true) {
		return false
	}
	if a.fallback.empty() {
		return true
	}
	ok, err = g.local.Take(ctx, a.now, a.fallback.charges, a.fallback.results)
	if err != nil {
		g.stats.localErrors.Add(1)
		return g.unjudged(a, v, &a.fallback, false)
	}
	if !ok {
		g.refuse(a, v, &a.fallback)
	}
	return ok
}

// unjudged applies the failure policies of charges whose store failed. One
// closed charge denies the request. Where standIn is set, those of policy local
// go to a.fallback, cut down to this process's share; all others pass. The
// charges leave gr, because their results mean nothing.
func (g *Gate) unjudged(a *ask, v *hotparam.Verdict, gr *group, standIn bool) bool {
	for i := range gr.meta {
		if gr.meta[i].policy == rules.FailClosed {
			deny(v, hotparam.ReasonStore, gr.meta[i].rule, closedRetry)
			v.Key = a.keyFor(gr.meta[i].key)
			return false
		}
	}
	live := int64(1)
	if standIn && g.live != nil {
		live = max(int64(g.live()), 1)
	}
	for i := range gr.meta {
		if standIn && gr.meta[i].policy != rules.FailOpen {
			c := gr.charges[i]
			c.Spec = share(c.Spec, live)
			a.fallback.add(c, gr.meta[i])
			continue
		}
		v.Reason, v.Rule = hotparam.ReasonStore, gr.meta[i].rule
	}
	gr.reset()
	return true
}

// share is the part of a limit that one of n processes enforces by itself. A
// limit that admits anything admits at least one. A bucket is refilled n times
// slower, which is exact where dividing its rate would round.
func share(s limit.Spec, n int64) limit.Spec {
	if s.Limit <= 0 {
		return s
	}
	if whole := s.Capacity(); s.Refills() && whole > 0 {
		s.Burst += max(whole/n, 1) - whole
	}
	if w := s.Window * time.Duration(n); s.Refills() && w/time.Duration(n) == s.Window && w <= maxShareWindow {
		s.Window = w
		return s
	}
	s.Limit = max(s.Limit/n, 1)
	return s
}

// giveBack returns what the local store has charged to a request that is now
// denied.
func (g *Gate) giveBack(a *ask, gr *group) {
	if g.refund == nil || gr.empty() {
		return
	}
	g.refund.RefundAt(a.now, gr.charges)
	for i := range gr.meta {
		if k := gr.meta[i].key; k >= 0 {
			a.keys[k].h.denials.refunds.Add(1)
		}
	}
}

// watch judges the limits in shadow mode, now that the request is admitted, as
// if they were all that is enforced. Those whose store fails are not judged.
func (g *Gate) watch(ctx context.Context, a *ask, v *hotparam.Verdict) {
	if !a.shadowLocal.empty() {
		ok, err := g.local.Take(ctx, a.now, a.shadowLocal.charges, a.shadowLocal.results)
		if err != nil {
			g.stats.localErrors.Add(1)
			a.shadowLocal.reset()
		} else if !ok {
			v.Shadowed = true
			a.shadowShared.reset()
		}
	}
	if a.shadowShared.empty() {
		return
	}
	ok, err := g.shared.take(ctx, a, &a.shadowShared)
	if err != nil {
		a.shadowShared.reset()
	} else if !ok {
		v.Shadowed = true
		g.giveBack(a, &a.shadowLocal)
	}
}
