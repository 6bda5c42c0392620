package respcache

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// fetch is one request to the handler for all clients of a variant, and the
// ResponseWriter of that request. The handler runs in a goroutine of its own; the client
// that it was begun for, if there is one, reads along by stream.
//
// While the answer may be kept, it is buffered and the handler never waits for the client.
// Otherwise each Write is handed over to the client and waits until it is taken.
type fetch struct {
	fetchSetup

	wake  chan struct{} // holds one: something is new for the client
	taken chan struct{} // one for each chunk that the client has written
	gone  chan struct{} // closed when no client reads along any more
	done  chan struct{} // closed when no request is to wait for the flight any more

	mu sync.Mutex // guards the fields below
	handlerResponse
	fetchProgress
	fetchResult
}

// fetchSetup has the inputs of a fetch, which do not change while the handler runs.
type fetchSetup struct {
	store  *store
	shard  *shard
	entry  *entry
	prior  *answer // that may be freshened by a 304; nil: none
	backup *answer // what is served if the handler fails; nil: nothing
	serve  *hottype.CachePolicy
	vary   []string // by which fields answers of the target differ so far
	plain  bool     // it carries the fields of the key only
	asks   []string // which fields it carries that the key may not have, and by which an answer may differ
	// upstream is PendingRequest.Upstream of the request that began the fetch. Only its leader sets it.
	upstream string

	request *http.Request // for the handler
	cancel  context.CancelFunc
	timeout *time.Timer // calls expire
	now     func() time.Time
	header  http.Header // the handler's, which alone uses the map while it runs
}

// handlerResponse is the response of the handler as far as it has come.
type handlerResponse struct {
	status         int         // 0: the handler has not answered yet
	sent           http.Header // as of then
	declaredLength int64       // the length of the body by sent; -1: unknown
	trailer        http.Header // what the handler set after its body, when it has landed
	answer         *answer     // what will be kept, without its body; nil: nothing
	why            string      // it is not kept
	body           []byte      // buffered, never changed where it is written
	reserved       int64
	chunk          []byte // of a body that is not buffered
	length         int64  // of the body so far
	flushed        bool
	interim        []interim // informational answers for the client
}

// fetchProgress is the state of a fetch, for its client and for the requests that wait.
type fetchProgress struct {
	held       bool        // the client gets nothing before the flight lands
	outlasting *time.Timer // calls outlast; nil: the header has not come
	slow       bool        // the body took longer than requests may wait for it
	expired    bool        // the fetch took too long for its response to be stored
	released   bool        // the flight has left its entry
	finished   bool
}

// fetchResult has the outcome of a fetch that has landed, for its client and for the counters.
type fetchResult struct {
	result   *answer // replaces the response of the handler; may be nil
	lent     *memory // the rest of the body for the client
	broken   any     // the value of the handler's panic, or http.ErrAbortHandler
	panicked any     // the same, also where result took its place
	unread   bool    // no client read along when the flight landed
	stored   *answer // the response to store; may be nil
}

func newFlight(s *store, sh *shard, e *entry, backup *answer, serve *hottype.CachePolicy) *fetch {
	if e.answer != nil {
		e.answer.memory.retain()
	}
	return &fetch{
		fetchSetup: fetchSetup{
			store: s, shard: sh, entry: e, prior: e.answer, backup: backup, serve: serve, vary: e.of.vary,
			header: http.Header{},
		},
		done: make(chan struct{}), wake: make(chan struct{}, 1), taken: make(chan struct{}),
		gone: make(chan struct{}),
	}
}

var (
	errNobody   = errors.New("respcache: no client reads the response")
	errFinished = errors.New("respcache: Write after the handler has returned")
)

// prepare makes the request for the handler of that of a client. It is for all that the entry
// stores, whatever the client asked for, and ends by itself, or when all does.
func (f *fetch) prepare(all context.Context, r *http.Request, timeout time.Duration, now func() time.Time) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	forget := context.AfterFunc(all, cancel)
	f.request, f.now = r.Clone(ctx), now
	f.cancel = func() { forget(); cancel() }
	f.request.Method, f.request.Body = http.MethodGet, http.NoBody
	f.timeout = time.AfterFunc(timeout, f.expire)
	h := fetchFields(r, f.vary)
	if !f.plain {
		h, f.asks = firstFields(r, f.vary, f.serve.Vary)
	}
	f.request.Header = h
	if part := f.entry.part; part != "" {
		h["Range"] = []string{part}
	}
	if f.prior == nil {
		return
	}
	if f.prior.etag != "" {
		h["If-None-Match"] = []string{f.prior.etag}
	}
	if !f.prior.modified.IsZero() {
		h["If-Modified-Since"] = []string{f.prior.modified.UTC().Format(http.TimeFormat)}
	}
}

// run asks the handler. It returns when the handler does, or ends its goroutine as the handler
// does by runtime.Goexit.
func (f *fetch) run(next http.Handler) {
	defer f.cancel()
	defer f.timeout.Stop()
	returned := false
	defer func() {
		broken := recover()
		if broken == nil && !returned {
			broken = http.ErrAbortHandler
		}
		f.end(broken)
	}()
	next.ServeHTTP(f, f.request)
	returned = true
}

// end lands the flight of a handler that has returned, or panicked with broken.
func (f *fetch) end(broken any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if broken == nil && f.status == 0 {
		f.begin(http.StatusOK)
	}
	if broken == nil && f.status != http.StatusNotModified && (f.request.Context().Err() != nil || !f.whole()) {
		broken = http.ErrAbortHandler
	}
	f.finish(broken)
}

// whole is whether the body is as long as the handler said.
func (f *fetch) whole() bool { return f.declaredLength < 0 || f.declaredLength == f.length }

// fetchBackoff is the longest marker of a variant whose answer was not to be kept, or that failed.
const fetchBackoff = time.Second

// backingOff reports whether it is before until, which was at most a pause ahead when it was set:
// what is further ahead was set before the clock went back.
func backingOff(now, until time.Time) bool {
	d := until.Sub(now)
	return d > 0 && d <= fetchBackoff
}

// outcome is what a fetch leaves in its entry.
type outcome struct {
	answer    *answer   // to store; nil: none
	notStored bool      // the handler gave an answer that is not to be kept
	failed    bool      // the handler failed
	retryAt   time.Time // of a fetch that the limits denied
}

// finish ends the flight: the answer is stored, or the variant marked. It needs mu.
func (f *fetch) finish(broken any) {
	now := f.now()
	o := outcome{answer: f.answer}
	f.panicked, f.trailer = broken, f.trailers()
	switch {
	case f.status == http.StatusNotModified && f.held && broken == nil:
		o.answer = f.freshen(now)
	case f.backup != nil && (f.held || f.status == 0):
		f.result, f.held, broken = f.backup, true, nil
		o = outcome{failed: true}
	case broken != nil:
		o = outcome{failed: true}
	case o.answer != nil && len(f.trailer) > 0: // not announced
		o.answer, f.why = nil, whyStream
	case o.answer != nil:
		o.answer.complete(f.body)
	}
	o.notStored = o.answer == nil && !o.failed
	f.stored = o.answer
	f.lendBody(o.answer)
	f.broken, f.finished = broken, true
	select {
	case <-f.gone:
		f.unread = true
	default:
	}
	if f.outlasting != nil {
		f.outlasting.Stop()
	}
	f.release(o, now)
	f.forgetPrior()
	f.notify()
}

// forgetPrior lets go of what a 304 would have freshened.
func (f *fetch) forgetPrior() {
	if f.prior != nil {
		f.prior.memory.release()
	}
}

// release takes the flight out of its entry and lets go of those who wait, for good. It needs mu.
func (f *fetch) release(o outcome, now time.Time) {
	switch {
	case !f.released:
		f.released = true
		f.store.finishFetch(f, o, now)
		f.letGo()
	case o.answer != nil:
		f.store.keepLate(f, o.answer, now)
	}
}

// freshen updates the stored response after a 304. It needs mu.
func (f *fetch) freshen(now time.Time) *answer {
	a, why := f.prior.freshened(f.sent, f.serve, now)
	f.why = why
	if f.result = a; a == nil {
		f.result = f.prior
	}
	return a
}

// deny ends a flight that was never begun.
func (f *fetch) deny(retry time.Time, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release(outcome{retryAt: retry}, now)
	f.forgetPrior()
}

func serverFailed(status int) bool {
	return status == 500 || status >= 502 && status <= 504
}

// PendingRequest is a request that a gate leaves to the cache.
type PendingRequest struct {
	// Verdict has Cache set.
	Verdict verdict.Verdict
	// Count counts the request. The cache calls it with the last verdict, at most once.
	Count func(last *verdict.Verdict)
	// Upstream names the handler in Stats; "" is the usual one.
	Upstream string

	counted bool
	again   bool // its fetch had not all fields by which the answer differs
}

// count calls Count, the first time.
func (p *PendingRequest) count(v *verdict.Verdict) {
	if !p.counted {
		p.counted = true
		p.Count(v)
	}
}

// Gate decides about what the cache cannot answer. *httplimit.HTTPGate is one.
type Gate interface {
	// ChargeKeys decides whether a request may go to the handler, by the limits of its keys. If the verdict has a
	// Lease, KeepLease has to follow.
	ChargeKeys(r *http.Request) verdict.Verdict
	// KeepLease keeps a lease until release is called; nil: there is none.
	KeepLease(l *verdict.Lease) (release func())
	// ServeAllowed serves a request that was allowed with a handler. onStatus is nil, or called with the status of the
	// response when it begins.
	ServeAllowed(w http.ResponseWriter, r *http.Request, v *verdict.Verdict, next http.Handler,
		onStatus func(status int))
}
