package hotparam

import "github.com/hotparam/pipeline/internal/serving/httplimit"

// Decision is a request that was judged. An allowed one must be ended by Done in any case: it may hold a place of a
// limit of requests in flight. Many goroutines may use it.
type Decision struct {
	// Verdict allows or denies the request. For a request that Options.Skip skipped, it allows and has no Reason.
	*Verdict
	tracker *httplimit.RequestTracker
}

// HandlerStarted records that the handler has the whole request. Adaptive limits measure the time from then to the
// response; a request that never begins does not count. Behind an adapter a request has begun when its body was read.
func (d *Decision) HandlerStarted() { d.tracker.HandlerStarted() }

// ResponseStarted records that the response begins, with its HTTP status, for which the request may be refunded. Only
// the first call counts.
func (d *Decision) ResponseStarted(status int) { d.tracker.ResponseStarted(status) }

// Done records that the response has ended. A request without a response failed: its handler panicked. Only the first
// call counts.
func (d *Decision) Done() { d.tracker.Done() }
