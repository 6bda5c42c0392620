package hotparam

import "github.com/hotparam/pipeline/internal/serving/httplimit"

// Decision is a request that was judged. An allowed one must be ended by Done in any case: it may hold a place of a
// limit of requests in flight. Many goroutines may use it.
type Decision struct {
	// Verdict is what was decided. That of a request that Options.Skip skipped allows it and has no Reason.
	*Verdict
	tracker *httplimit.RequestTracker
}

// HandlerStarted says that the handler has the whole request. Adaptive limits follow how long it takes from there to
// the answer; what never begins tells them nothing. Behind an adapter a request has begun when its body was read.
func (d *Decision) HandlerStarted() { d.tracker.HandlerStarted() }

// ResponseStarted says that the answer begins, and its HTTP status, by which a request may get back what it took. Only
// the first call means something.
func (d *Decision) ResponseStarted(status int) { d.tracker.ResponseStarted(status) }

// Done says that the answer has ended. A request that was not answered failed: its handler panicked. Only the first
// call means something.
func (d *Decision) Done() { d.tracker.Done() }
