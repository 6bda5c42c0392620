package httplimit

import (
	"context"
	"net/http"
	"sync"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Underway is an admitted request whose handler is of another framework than net/http. The framework says
// when it begins, is answered and ends. Any number of goroutines may use it, and nil is one that nobody waits for.
type Underway struct {
	gate    *SafeGate
	seen    *observed       // nil: no limit adapts to what becomes of it
	refund  *hottype.Refund // nil: it gets nothing back
	release func()          // nil: it holds nothing

	mu       sync.Mutex
	answered bool
}

// Underway gives what has to be told of a request that a verdict lets pass; nil: nothing. End has to follow.
func (g *SafeGate) Underway(ctx context.Context, v *hottype.Verdict) *Underway {
	u := &Underway{gate: g, refund: v.Refund}
	if v.Upstream != "" && g.observer != nil {
		u.seen = &observed{ctx: ctx, gate: g, upstream: v.Upstream, lease: v.Lease}
	}
	if v.Lease != nil {
		u.release = g.Hold(v.Lease)
	}
	if u.seen == nil && u.refund == nil && u.release == nil {
		return nil
	}
	return u
}

// Begin says that the handler has the whole request.
func (u *Underway) Begin() {
	if u != nil && u.seen != nil {
		u.seen.begin()
	}
}

// BeginAfter calls Begin when the body of r was read: its Body is replaced. It has none: at once.
func (u *Underway) BeginAfter(r *http.Request) {
	switch {
	case u == nil || u.seen == nil:
	case hasBody(r):
		r.Body = &observedBody{r.Body, u.seen}
	default:
		u.seen.begin()
	}
}

// Answered says that the answer begins, and its HTTP status. Only the first call means something.
func (u *Underway) Answered(status int) {
	if u == nil || u.answeredBefore() {
		return
	}
	if u.seen != nil {
		u.seen.answered(status)
	}
	if u.refund != nil {
		u.gate.Refund(u.refund, status)
	}
}

// answeredBefore notes that there is an answer, and says whether there was one before.
func (u *Underway) answeredBefore() (before bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before, u.answered = u.answered, true
	return before
}

// End gives back what the request holds. Call it in any case; the second call does nothing. A request without an
// answer was failed by its handler, which panicked.
func (u *Underway) End() {
	if u == nil {
		return
	}
	u.Answered(http.StatusInternalServerError)
	if u.release != nil {
		u.release()
	}
}
