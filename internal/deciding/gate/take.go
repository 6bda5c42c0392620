package gate

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// closedRetry is how long a request waits that was denied because the shared
// store failed: the time in which the store has usually come back.
const closedRetry = time.Second

// maxShareWindow is within what limit.Spec.Validate takes.
const maxShareWindow = 365 * 24 * time.Hour

// take asks the stores for all charges, all or nothing, and fills in the
// verdict. It reports whether the request is admitted.
func (g *Gate) take(ctx context.Context, a *ask, v *hottype.Verdict) bool {
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
	if !a.async.empty() && !g.takeAsync(ctx, a, v) {
		g.giveBack(a, &a.local)
		return false
	}
	if !a.shared.empty() && !g.takeShared(ctx, a, v) {
		g.giveBack(a, &a.local)
		if !a.async.empty() {
			g.async.RefundAt(a.now, a.async.charges)
		}
		return false
	}
	g.watch(ctx, a, v)
	report(a, v)
	return true
}

// takeAsync asks the store that exchanges sums. For subjects of which it has not
// heard from others, each rule's policy says what becomes of its charge.
func (g *Gate) takeAsync(ctx context.Context, a *ask, v *hottype.Verdict) bool {
	gr := &a.async
	if !g.alone(a, v, gr) {
		return false
	}
	if gr.empty() {
		return true
	}
	ok, err := g.async.Take(ctx, a.now, gr.charges, gr.results)
	if err != nil {
		g.stats.localErrors.Add(1)
		return g.unjudged(a, v, gr, false)
	}
	if !ok {
		g.refuse(a, v, gr)
	}
	return ok
}

// alone applies the failure policies of charges of which the store knows this
// process only: a closed one denies the request, an open one is not judged, the
// others are held to this process's share.
func (g *Gate) alone(a *ask, v *hottype.Verdict, gr *group) bool {
	fresh := 0
	for i := range gr.charges {
		if !g.async.Fresh(a.now, &gr.charges[i].Subject) {
			a.out.add(gr.charges[i], gr.meta[i])
			continue
		}
		if fresh < i {
			gr.charges[fresh], gr.meta[fresh] = gr.charges[i], gr.meta[i]
		}
		fresh++
	}
	gr.cut(fresh)
	if a.out.empty() {
		return true
	}
	if !g.unjudged(a, v, &a.out, true) {
		return false
	}
	for i := range a.fallback.charges { // the shares are for this store, and not for the local one
		gr.add(a.fallback.charges[i], a.fallback.meta[i])
	}
	a.fallback.reset()
	return true
}

// takeShared asks the shared store, and where a part of it fails, the policy of
// each rule whose limit lies there; the others are asked for again. What stands in
// is charged first, because it can be given back.
func (g *Gate) takeShared(ctx context.Context, a *ask, v *hottype.Verdict) bool {
	if a.remembered(v, &a.shared) {
		return false
	}
	for !a.shared.empty() {
		ok, err := g.shared.take(ctx, a, &a.shared)
		if err == nil {
			if !ok {
				a.remember(&a.shared)
				g.refuse(a, v, &a.shared)
				g.giveBack(a, &a.fallback)
			} else {
				g.note(ctx, a, &a.shared)
			}
			return ok
		}
		g.shared.exclude(a, &a.shared)
		if !g.standIn(ctx, a, v, &a.out) {
			return false
		}
	}
	return true
}

// standIn judges charges that the shared store cannot, each by the policy of its
// rule. They leave gr. Where it denies, nothing stays charged.
func (g *Gate) standIn(ctx context.Context, a *ask, v *hottype.Verdict, gr *group) bool {
	before := len(a.fallback.charges)
	ok := g.unjudged(a, v, gr, true)
	if more := a.fallback.from(before); ok && !more.empty() {
		taken, err := g.local.Take(ctx, a.now, more.charges, more.results)
		if ok = taken; err != nil {
			g.stats.localErrors.Add(1)
			ok = g.unjudged(a, v, &more, false)
			a.fallback.cut(before) // what they would say means nothing
		} else if !ok {
			g.refuse(a, v, &more)
		}
	}
	if !ok {
		a.fallback.cut(before)
		g.giveBack(a, &a.fallback)
	}
	return ok
}

// note charges this process's shares of the keys' limits for what the shared
// store has admitted, as far as they bear it, so that a store which fails does
// not grant every process a full bucket beside what it had already: not at the
// first time and not at each of many. Per-IP windows are not noted, of which
// there are as many as clients.
func (g *Gate) note(ctx context.Context, a *ask, gr *group) {
	for i := range gr.meta {
		if gr.meta[i].key >= 0 && gr.meta[i].policy == rules.FailLocal {
			a.noted.add(gr.charges[i], gr.meta[i])
		}
	}
	live, shares := g.processes(), &a.noted
	for i := range shares.charges { // each by itself: one that bears no more keeps no other from it
		s := share(shares.charges[i].Spec, live)
		s.Wait, s.Block, s.BlockMax = 0, 0, 0 // nobody is held back or denied here
		shares.charges[i].Spec = s
		if _, err := g.local.Take(ctx, a.now, shares.charges[i:i+1], shares.results[i:i+1]); err != nil {
			g.stats.localErrors.Add(1)
		}
	}
	shares.reset()
}

// processes is how many share the limits, this one included.
func (g *Gate) processes() int64 {
	if g.live == nil {
		return 1
	}
	return max(int64(g.live()), 1)
}

// unjudged applies the failure policies of charges whose store failed. One
// closed charge denies the request. Where standIn is set, those of policy local
// go to a.fallback, cut down to this process's share; all others pass. The
// charges leave gr, because their results mean nothing.
func (g *Gate) unjudged(a *ask, v *hottype.Verdict, gr *group, standIn bool) bool {
	for i := range gr.meta {
		if gr.meta[i].policy == rules.FailClosed {
			deny(v, hottype.ReasonStore, gr.meta[i].rule, closedRetry)
			v.Key = a.keyFor(gr.meta[i].key)
			return false
		}
	}
	live := g.processes()
	for i := range gr.meta {
		if standIn && gr.meta[i].policy != rules.FailOpen {
			c := gr.charges[i]
			c.Spec = share(c.Spec, live)
			a.fallback.add(c, gr.meta[i])
			continue
		}
		v.Reason, v.Rule = hottype.ReasonStore, gr.meta[i].rule
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
	if whole, initial := s.AtOnce(), s.Burst-s.InitialDeficit; s.Refills() && whole > 0 {
		s.Burst += max(whole/n, 1) - whole
		if s.InitialDeficit > 0 { // else it starts full
			s.InitialDeficit = s.Burst - min(s.Burst, initial/n)
		}
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
func (g *Gate) watch(ctx context.Context, a *ask, v *hottype.Verdict) {
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
