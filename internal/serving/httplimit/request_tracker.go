package httplimit

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/wait"
)

// RequestTracker tracks an allowed request of another framework than net/http. The framework reports
// when it begins, is answered and ends. It is safe for concurrent use, and a nil *RequestTracker does nothing.
type RequestTracker struct {
	ctx     context.Context // of the request: over when the client left
	gate    *SafeGate
	seen    *upstreamTimer  // nil: no limit adapts to its outcome
	refund  *hottype.Refund // nil: it gets nothing back
	release func()          // nil: it holds nothing

	mu       sync.Mutex
	answered bool
}

// Track gives what has to be told of a request that a verdict lets pass; nil: nothing. Done has to follow.
func (g *SafeGate) Track(ctx context.Context, v *hottype.Verdict) *RequestTracker {
	u := &RequestTracker{ctx: ctx, gate: g, refund: v.Refund}
	if v.Upstream != "" && g.observer != nil {
		u.seen = &upstreamTimer{ctx: ctx, gate: g, upstream: v.Upstream, lease: v.Lease}
	}
	if v.Lease != nil {
		u.release = g.KeepLease(v.Lease)
	}
	if u.seen == nil && u.refund == nil && u.release == nil {
		return nil
	}
	return u
}

// HandlerStarted says that the handler has the whole request.
func (u *RequestTracker) HandlerStarted() {
	if u != nil && u.seen != nil {
		u.seen.begin()
	}
}

// HandlerStartedAfterBody calls HandlerStarted when the body of r was read: its Body is replaced. It has none: at once.
func (u *RequestTracker) HandlerStartedAfterBody(r *http.Request) {
	switch {
	case u == nil || u.seen == nil:
	case hasBody(r):
		r.Body = &observedBody{r.Body, u.seen}
	default:
		u.seen.begin()
	}
}

// ResponseStarted says that the answer begins, and its HTTP status. Only the first call means something.
func (u *RequestTracker) ResponseStarted(status int) {
	if u == nil || u.answeredBefore() {
		return
	}
	if u.seen != nil {
		u.seen.answered(status)
	}
	if u.refund != nil && u.ctx.Err() == nil { // a client that leaves gets nothing back
		u.gate.Refund(u.refund, status)
	}
}

// answeredBefore notes that there is an answer, and says whether there was one before.
func (u *RequestTracker) answeredBefore() (before bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before, u.answered = u.answered, true
	return before
}

// Done gives back what the request holds. Call it in any case; the second call does nothing. A request without an
// answer was failed by its handler, which panicked.
func (u *RequestTracker) Done() {
	if u == nil {
		return
	}
	u.ResponseStarted(http.StatusInternalServerError)
	if u.release != nil {
		u.release()
	}
}

// KeepLease keeps the lease of a verdict, if it has one, until release is called:
// responses may take longer than it lives. release does nothing the second time.
func (g *SafeGate) KeepLease(l *hottype.Lease) (release func()) {
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
	gate  *SafeGate
	lease *hottype.Lease
	every time.Duration

	mu    sync.Mutex // also held over a renewal, which must not come after the release
	timer *time.Timer
	over  bool
}

func (h *leaseRenewal) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.gate.holder.Renew(h.gate.cfg.Now(), h.lease)
		h.timer.Reset(h.every)
	}
}

func (h *leaseRenewal) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		h.timer.Stop()
		h.gate.holder.Release(h.gate.cfg.Now(), h.lease)
	}
}

// Release gives back what another process was told to release.
func (g *SafeGate) Release(l *hottype.Lease) (held bool) {
	return g.holder != nil && g.holder.Release(g.cfg.Now(), l)
}

// Refunder is a Gate that gives back what a request took. *gate.Gate is one.
type Refunder interface {
	Gate
	Refund(now time.Time, r *hottype.Refund, status int)
}

// AllowedHandler gives the handler to which an allowed request goes. It observes the upstream, and lets a request that
// holds a slot outlive its client. Where the request may get back what it took, it reports the status of the response
// to the gate, once, unless the client has left.
func (g *SafeGate) AllowedHandler(v *hottype.Verdict, next http.Handler) http.Handler {
	next = g.observe(v, next)
	if v.Lease != nil && g.cfg.AbandonedFor > 0 {
		next = outliving(next, g.cfg.AbandonedFor)
	}
	refund := v.Refund
	if refund == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ServeWithStatus(w, r, next, func(status int) {
			if r.Context().Err() == nil { // else a client that leaves would pay nothing where failures are refunded
				g.Refund(refund, status)
			}
		})
	})
}

// Refund gives back what a request took, if its answer had one of the statuses.
func (g *SafeGate) Refund(r *hottype.Refund, status int) {
	if to, ok := g.cfg.Gate.(Refunder); ok && r.AppliesTo(status) {
		to.Refund(g.cfg.Now(), r, status)
	}
}

// Wait holds an allowed request back for as long as its verdict says, which is
// nothing for most, and reports whether it is still wanted then: false when ctx
// ended first, because the client left. The place it had is not given to others.
func Wait(ctx context.Context, v *hottype.Verdict) bool {
	return v.Wait <= 0 || wait.For(ctx, v.Wait)
}
