package hotparam

import (
	"cmp"
	"net/http"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Decision is a request that was judged. An allowed request must be ended by Done in any case, because it may hold a
// place of a limit of requests in flight. Many goroutines may use it.
type Decision struct {
	// Verdict allows or denies the request. For a request that Options.Skip skipped, it allows and has no Reason.
	*Verdict
	tracker *httplimit.RequestTracker
	answers *httplimit.Responder // writes the denial; nil means the default
}

// WriteDenial answers a denied request as the middleware does: with the status 429, Retry-After, the RateLimit fields,
// and a problem document, a page or text, according to Accept. The decisions of an adapter use its Status and Headers.
// For an allowed decision it writes nothing, so that no request is denied by mistake.
func (d *Decision) WriteDenial(w http.ResponseWriter, r *http.Request) {
	if d.Verdict != nil && !d.Allowed {
		cmp.Or(d.answers, &httplimit.Responder{}).WriteDenial(w, r, d.Verdict)
	}
}

// HandlerStarted records that the handler has the whole request. Adaptive limits measure the time from then to the
// response; a request that never begins does not count. Behind an adapter a request has begun when its body was read.
func (d *Decision) HandlerStarted() { d.tracker.HandlerStarted() }

// ResponseStarted records that the response begins, with its HTTP status, for which the request may be refunded. Only
// the first call counts.
func (d *Decision) ResponseStarted(status int) { d.tracker.ResponseStarted(status) }

// SetCost sets the cost of the request for rules with "cost: response.NAME", in place of that field of the response:
// for frameworks that do not show it, and for callers without responses. Call it before ResponseStarted. Other rules
// ignore it, and a cost below 0 has no effect.
func (d *Decision) SetCost(cost float64) { d.tracker.SetCost(cost) }

// Done records that the response has ended. A request without a response failed: its handler panicked. Only the first
// call counts.
func (d *Decision) Done() { d.tracker.Done() }
