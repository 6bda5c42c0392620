package httplimit

import (
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Refunder is a Gate that gives back what a request took. *gate.Gate is one.
type Refunder interface {
	Gate
	Refund(now time.Time, r *hottype.Refund, status int)
}

// Refunding gives the handler to which an admitted request goes. Where the request may get
// back what it took, it tells the gate the status of the answer, once.
func (g *SafeGate) Refunding(v *hottype.Verdict, next http.Handler) http.Handler {
	refund := v.Refund
	if refund == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ServeTold(w, r, next, func(status int) { g.Refund(refund, status) })
	})
}

// Refund gives back what a request took, if its answer had one of the statuses.
func (g *SafeGate) Refund(r *hottype.Refund, status int) {
	if to, ok := g.cfg.Gate.(Refunder); ok && r.Due(status) {
		to.Refund(g.cfg.Now(), r, status)
	}
}
