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
	// maxShareWindow is within what limit.Spec.Validate takes.
	maxShareWindow = 365 * 24 * time.Hour
	// spaceCandidate keeps candidate limits apart from the live ones.
	spaceCandidate = "candidate"
)

// take takes all charges, all or nothing, and fills in the verdict. It reports whether
// the request is admitted. What is decided in this process comes first: it costs
// nothing, and what was taken can be given back.
func (g *Gate) take(ctx context.Context, d *decision, v *hottype.Verdict) bool {
	admitted := g.askFair(d, v) && g.hold(ctx, d, v) && g.takeLimits(ctx, d, v)
	g.settleFair(d, admitted)
	if !admitted && d.lease != nil {
		g.Release(d.now, d.lease)
	}
	return admitted
}

// takeLimits asks the stores.
func (g *Gate) takeLimits(ctx context.Context, d *decision, v *hottype.Verdict) bool {
	if !g.takeLocal(ctx, d, v) {
		return false
	}
	if !g.takeAsync(ctx, d, v) {
		g.refund(d, g.local, &d.local)
		return false
	}
	if !g.takeShared(ctx, d, v) {
		g.refund(d, g.local, &d.local)
		g.refund(d, g.local, &d.fallback)
		g.refund(d, g.async, &d.async)
		return false
	}
	g.takeShadow(ctx, d, v)
	report(d, v)
	d.refundable(v)
	return true
}

func (g *Gate) takeLocal(ctx context.Context, d *decision, v *hottype.Verdict) bool {
	gr := &d.local
	alone := len(gr.charges) == 1 // else asking costs little more, and says who denied first
	if alone && d.remembered(v, gr) {
		return false
	}
	ok := g.takeHere(ctx, d, v, g.local, gr, 0)
	if alone && !ok {
		d.remember(gr)
	}
	return ok
}

// takeAsync asks the store that exchanges sums. For subjects of which it has not
// heard from others, each rule's policy decides what becomes of its charge: a share
// is for this store too.
func (g *Gate) takeAsync(ctx context.Context, d *decision, v *hottype.Verdict) bool {
	if d.async.empty() {
		return true
	}
	d.async.move(&d.failed, func(c *limit.Charge) bool { return !g.async.Fresh(d.now, &c.Subject) })
	return g.applyPolicies(d, v, &d.failed, &d.async) && g.takeHere(ctx, d, v, g.async, &d.async, 0)
}

// takeShared asks the shared store. Where a server of it fails, the failure policies
// decide about the charges that lie there, and the store is asked again for the
// others. The fallback is charged first, because it can be given back.
func (g *Gate) takeShared(ctx context.Context, d *decision, v *hottype.Verdict) bool {
	if !d.shared.empty() && d.remembered(v, &d.shared) {
		return false
	}
	for !d.shared.empty() {
		ok, err := g.shared.take(ctx, d, &d.shared)
		if err == nil && ok {
			g.chargeShares(ctx, d)
			return true
		}
		if err == nil {
			d.remember(&d.shared)
			d.refuse(v, &d.shared)
			d.tellRefused(&d.shared, g.processes())
			return false
		}
		g.shared.moveFailed(d, &d.shared)
		before := len(d.fallback.charges)
		if !g.applyPolicies(d, v, &d.failed, &d.fallback) || !g.takeHere(ctx, d, v, g.local, &d.fallback, before) {
			d.fallback.cut(before)
			return false
		}
	}
	return true
}

// takeHere asks a store of this process for the charges of a group from an index on.
// Where the store fails, the policies decide; the charges leave the group then,
// because their results mean nothing.
func (g *Gate) takeHere(ctx context.Context, d *decision, v *hottype.Verdict, store limit.Store, gr *group, from int) bool {
	asked := gr.from(from)
	if asked.empty() {
		return true
	}
	ok, err := store.Take(ctx, d.now, asked.charges, asked.results)
	if err != nil {
		g.stats.localErrors.Add(1)
		ok = g.applyPolicies(d, v, &asked, nil)
		gr.cut(from)
	} else if !ok {
		d.refuse(v, &asked)
		d.tellRefused(&asked, 1)
	}
	return ok
}

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
			c := failed.charges[i]
			c.Spec = share(c.Spec, live)
			shares.add(c, m)
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
		c := d.shared.charges[i]
		c.Spec = share(c.Spec, live)
		c.Spec.Wait, c.Spec.Block, c.Spec.BlockMax = 0, 0, 0 // nobody is held back or denied here
		one.add(c, m)
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

// share is the part of a limit that one of n processes enforces by itself. A
// limit that admits anything admits at least one. A bucket is refilled n times
// slower, which is exact where dividing its rate would round.
func share(s limit.Spec, n int64) limit.Spec {
	if s.Limit <= 0 {
		return s
	}
	refills := limitcore.Spec(s).Refills()
	if whole, initial := limitcore.Spec(s).AtOnce(), s.Burst-s.InitialDeficit; refills && whole > 0 {
		s.Burst += max(whole/n, 1) - whole
		if s.InitialDeficit > 0 { // else it starts full
			s.InitialDeficit = s.Burst - min(s.Burst, initial/n)
		}
	}
	if w := s.Window * time.Duration(n); refills && w/time.Duration(n) == s.Window && w <= maxShareWindow {
		s.Window = w
		return s
	}
	s.Limit = max(s.Limit/n, 1)
	return s
}

// refund gives back what a store of this process has charged to a request that is now
// denied.
func (g *Gate) refund(d *decision, store Refunder, gr *group) {
	if gr.empty() {
		return
	}
	store.RefundAt(d.now, gr.charges)
	for i := range gr.meta {
		if k := gr.meta[i].key; k >= 0 {
			d.keys[k].h.denials.refunds.Add(1)
		}
	}
}

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
	if v.Reason == hottype.ReasonIPFixed || v.Reason == hottype.ReasonIPSliding {
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
		gr.add(limit.Charge{
			Subject: limit.Subject{Space: spaceCandidate, Name: string(d.name(i))}, Spec: spec, Cost: d.cost,
		}, meta{term: &h.term, key: i})
	}
	if gr.empty() {
		return
	}
	ok, err := g.local.Take(ctx, d.now, gr.charges, gr.results)
	if err != nil {
		g.stats.localErrors.Add(1)
		return
	}
	d.counters.candidate(ok, v.Allowed)
}
