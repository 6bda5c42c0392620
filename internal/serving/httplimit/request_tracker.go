package httplimit

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/wait"
)

// RequestTracker tracks an allowed request of another framework than net/http. The framework reports when the request
// begins, is answered and ends. It is safe for concurrent use, and a nil *RequestTracker does nothing.
type RequestTracker struct {
	ctx     context.Context // of the request; it ends when the client leaves
	gate    *HTTPGate
	timer   *upstreamTimer  // nil if no limit adapts to its outcome
	refund  *verdict.Refund // nil if nothing is refunded
	release func()          // nil if it holds no slots
	cost    *costMeasure    // nil if its cost is not measured

	mu       sync.Mutex
	answered bool
}

// Track returns the tracker of a request that a verdict allows, or nil if nothing has to be tracked. Done has to
// follow.
func (g *HTTPGate) Track(ctx context.Context, v *verdict.Verdict) *RequestTracker {
	u := g.newTracker(ctx, v)
	if v.Lease != nil {
		u = cmp.Or(u, &RequestTracker{ctx: ctx, gate: g})
		u.release = g.KeepLease(v.Lease)
	}
	return u
}

// newTracker is like Track, without the lease.
func (g *HTTPGate) newTracker(ctx context.Context, v *verdict.Verdict) *RequestTracker {
	if v.Upstream == "" && v.Reports == nil {
		return nil
	}
	return g.makeTracker(ctx, v)
}

func (g *HTTPGate) makeTracker(ctx context.Context, v *verdict.Verdict) *RequestTracker {
	u := &RequestTracker{ctx: ctx, gate: g, refund: v.Reports.Refund(), cost: g.newCostMeasure(v.Reports.Work())}
	if v.Upstream != "" {
		u.timer = &upstreamTimer{ctx: ctx, gate: g, upstream: v.Upstream, lease: v.Lease}
	}
	return u
}

// OutlivesClient reports whether the request goes on when its client leaves: it holds slots of limits of requests in
// flight, or its time is counted, which a client must not avoid by leaving.
func (u *RequestTracker) OutlivesClient() bool { return u != nil && u.release != nil || u.countsTime() }

// SetHeader gives the header of the response, which may have the cost of the request.
func (u *RequestTracker) SetHeader(h http.Header) {
	if u != nil && u.cost != nil {
		u.cost.header = h
	}
}

// SetCost gives the cost of the request for rules whose cost is a field of the response, in place of that field.
func (u *RequestTracker) SetCost(cost float64) {
	if u != nil && u.cost != nil {
		given := costs.NothingGiven
		given.Cost = cost
		u.cost.work.Give(given)
	}
}

// HandlerStarted records that the handler has the whole request.
func (u *RequestTracker) HandlerStarted() {
	if u == nil {
		return
	}
	if u.timer != nil {
		u.timer.recordRequest()
	}
	if u.cost != nil {
		u.cost.work.Begin(u.gate.cfg.Now())
	}
}

// watchesBody reports whether the tracker has to know when the handler has read the body.
func (u *RequestTracker) watchesBody() bool { return u != nil && (u.timer != nil || u.cost != nil) }

// HandlerStartedAfterBody calls HandlerStarted when the body of r has been read, for which it replaces Body, or at once
// if r has no body.
func (u *RequestTracker) HandlerStartedAfterBody(r *http.Request) {
	if !u.watchesBody() {
		return
	}
	if u.cost != nil {
		u.cost.work.HandlerBegins(u.gate.cfg.Now())
	}
	if hasBody(r) {
		r.Body = &observedBody{r.Body, u}
		return
	}
	u.HandlerStarted()
}

// ResponseStarted records that the response begins, and its HTTP status. Only the first call counts.
func (u *RequestTracker) ResponseStarted(status int) {
	if u == nil || u.answeredBefore() {
		return
	}
	if u.timer != nil {
		u.timer.recordResponse(status)
	}
	if u.cost != nil {
		u.cost.work.Respond(u.gate.cfg.Now(), u.cost.header, u.ctx.Err() != nil)
	}
	if u.refund != nil && u.ctx.Err() == nil { // no refund for a client that left
		u.gate.cfg.Gate.Refund(u.gate.cfg.Now(), u.refund, status)
	}
}

// answeredBefore records a response, and reports whether there was one before.
func (u *RequestTracker) answeredBefore() (before bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before, u.answered = u.answered, true
	return before
}

// Done releases the slots of the request. Call it in any case; the second call does nothing. A request without a
// response counts as failed by its handler, which panicked.
func (u *RequestTracker) Done() {
	if u == nil {
		return
	}
	u.ResponseStarted(http.StatusInternalServerError)
	if u.cost != nil {
		u.endCost()
	}
	if u.release != nil {
		u.release()
	}
}

// KeepLease keeps the lease of a verdict, if it has one, until release is called, because responses may take longer
// than the lease lives. A second call of release does nothing.
func (g *HTTPGate) KeepLease(l *verdict.Lease) (release func()) {
	if l == nil {
		return func() {}
	}
	h := &leaseRenewal{gate: g, lease: l, every: time.Hour}
	for i := range l.Slots {
		h.every = min(h.every, l.Slots[i].TTL/3)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.every, h.renew)
	return h.release
}

type leaseRenewal struct {
	gate  *HTTPGate
	lease *verdict.Lease
	every time.Duration

	mu    sync.Mutex // also held during a renewal, which must not come after the release
	timer *time.Timer
	over  bool
}

func (h *leaseRenewal) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.gate.cfg.Gate.Renew(h.gate.cfg.Now(), h.lease)
		h.timer.Reset(h.every)
	}
}

func (h *leaseRenewal) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		h.timer.Stop()
		h.gate.cfg.Gate.Release(h.gate.cfg.Now(), h.lease)
	}
}

// Wait holds an allowed request back for the time in its verdict, which is 0 for most, and reports whether the request
// may still go on. It returns false if ctx ended first, because the client left. The place of that request is not
// passed on to others.
func Wait(ctx context.Context, v *hottype.Verdict) bool {
	return v.Wait <= 0 || wait.For(ctx, v.Wait)
}
