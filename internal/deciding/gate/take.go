package gate

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// take takes all charges, all or nothing, and fills in the verdict. It reports whether
// the request is admitted. What is decided in this process comes first: it costs
// nothing, and what was taken can be given back.
func (g *Gate) take(ctx context.Context, d *decision, v *hottype.Verdict) bool {
	if !d.asks {
		return true
	}
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
func (g *Gate) takeHere(ctx context.Context, d *decision, v *hottype.Verdict, store limit.Store, gr *group,
	from int) bool {
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

// shared calls the shared store, bounded in time and behind a breaker for each of
// its servers, so that a dead one costs one call's budget each probeEvery and other
// requests nothing.
//
// Time is read from the clock here, not taken from the decision: what is
// bounded and measured is how long a call really takes.
type shared struct {
	store    SharedStore
	until    deadlines
	breakers *breakers
	log      *slog.Logger

	calls   atomic.Uint64
	errors  atomic.Uint64
	refused atomic.Uint64
	latency latency
}

func newShared(cfg Config) *shared {
	s := &shared{store: cfg.Shared, until: deadlines{budget: cfg.Budget}, log: cfg.Log}
	if cfg.Budget <= 0 {
		s.until.budget = DefaultBudget
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.breakers = newBreakers(cfg.Shared, s.log)
	return s
}

// take asks the store for the charges of a group within what is left of the
// decision's budget. For a request whose client has left already it does not
// ask; ctx is not looked at again. Where it fails, d.blamed is the breaker of the
// server that did, or nil for all.
func (s *shared) take(ctx context.Context, d *decision, gr *group) (ok bool, err error) {
	d.blamed, d.prefetched = nil, false
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.store.TakePrefetched(gr.charges, gr.results) {
		d.prefetched = true
		return true, nil
	}
	if d.until != nil && d.until.Err() != nil {
		return false, d.until.Err() // an earlier call of the decision took all the time
	}
	if err := s.acquire(d, gr); err != nil {
		return false, err
	}
	start := time.Now()
	if d.until == nil {
		d.until = s.until.next(start)
	}
	defer d.release(errPanic) // unless Take returns: a probe must always be answered
	ok, err = s.store.Take(d.until, d.now, gr.charges, gr.results)
	s.calls.Add(1)
	s.latency.add(time.Since(start))
	if err != nil {
		s.errors.Add(1)
		s.failed(d, start, err)
	} else if !ok {
		s.unanswered(d, gr, start)
	}
	d.release(nil)
	return ok, err
}
