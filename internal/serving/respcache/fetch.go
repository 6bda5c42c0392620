package respcache

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// fetch is one request to the handler for all clients of a variant, and the ResponseWriter of that request. The handler
// runs in a goroutine of its own. The client for which the fetch began, if there is one, reads along by streamResponse.
//
// While the response may be stored, it is buffered, and the handler never waits for the client. Otherwise each Write
// passes its bytes to the client and waits until the client has taken them.
type fetch struct {
	fetchSetup

	wake  chan struct{} // holds one signal: there is news for the client
	taken chan struct{} // one signal for each chunk that the client has written
	gone  chan struct{} // closed when no client reads along any more
	done  chan struct{} // closed when requests are no longer to wait for the fetch

	mu sync.Mutex // guards the fields below
	handlerResponse
	fetchProgress
	fetchResult
}

// fetchSetup holds the inputs of a fetch, which do not change while the handler runs.
type fetchSetup struct {
	store  *store
	shard  *shard
	entry  *entry
	prior  *answer // may be freshened by a 304; may be nil
	backup *answer // served if the handler fails; may be nil
	serve  *hottype.CachePolicy
	vary   []string // the fields by which responses of the target differ so far
	plain  bool     // it carries the fields of the key only, so its response is for all clients of the variant
	// The fields that the fetch carries, that the key may not have, and by which a response may differ.
	asks []string
	// upstream is PendingRequest.Upstream of the request that began the fetch. Only its leader sets it.
	upstream string

	request *http.Request // for the handler
	cancel  context.CancelFunc
	timeout *time.Timer // calls expire
	now     func() time.Time
	header  http.Header // the handler's, which alone uses the map while it runs
}

// handlerResponse holds the part of the handler's response that has come.
type handlerResponse struct {
	status         int         // 0 if the handler has not begun its response
	sent           http.Header // the header as of then
	declaredLength int64       // length of the body by sent, or -1 if unknown
	trailer        http.Header // fields that the handler set after its body; set when the fetch ends
	answer         *answer     // the answer to store, without its body; nil if not to be stored
	why            string      // the reason why it is not stored
	body           []byte      // buffered; written bytes never change
	reserved       int64
	chunk          []byte // of a body that is not buffered
	length         int64  // of the body so far
	flushed        bool
	interim        []interim // informational answers for the client
}

// fetchProgress holds the state of a fetch, for its client and for the requests that wait.
type fetchProgress struct {
	held      bool        // the client gets nothing before the fetch ends
	slowTimer *time.Timer // calls markSlow; nil while the header has not come
	slow      bool        // the body took longer than requests may wait for it
	expired   bool        // the fetch took too long for its response to be stored
	released  bool        // the fetch is no longer in its entry
	finished  bool
}

// fetchResult holds the outcome of a fetch that has ended, for its client and for the counters.
type fetchResult struct {
	result   *answer // replaces the response of the handler; may be nil
	lent     *memory // the rest of the body for the client
	broken   any     // the value of the handler's panic, or http.ErrAbortHandler
	panicked any     // like broken, also if result took the response's place
	unread   bool    // no client read along when the fetch ended
	stored   *answer // the response to store; may be nil
}

func newFetch(s *store, sh *shard, e *entry, backup *answer, serve *hottype.CachePolicy) *fetch {
	if e.answer != nil {
		e.answer.memory.retain()
	}
	return &fetch{
		fetchSetup: fetchSetup{
			store: s, shard: sh, entry: e, prior: e.answer, backup: backup, serve: serve, vary: e.resource.vary,
			header: http.Header{},
		},
		done: make(chan struct{}), wake: make(chan struct{}, 1), taken: make(chan struct{}),
		gone: make(chan struct{}),
	}
}

var (
	errNoReader = errors.New("respcache: no client reads the response")
	errFinished = errors.New("respcache: Write after the handler has returned")
)

// prepare makes the request for the handler from a client's request. It asks for the full response of the entry,
// whatever the client asked for. It does not end with the client's context, but with all.
func (f *fetch) prepare(all context.Context, r *http.Request, timeout time.Duration, now func() time.Time) {
	ctx, cancel := context.WithCancel(httplimit.ForAllClients(context.WithoutCancel(r.Context())))
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

// run calls the handler and returns when the handler does. If the handler ends its goroutine with runtime.Goexit, so
// does run.
func (f *fetch) run(next http.Handler) {
	defer f.cancel()
	defer f.timeout.Stop()
	returned := false
	defer func() {
		broken := recover()
		if broken == nil && !returned {
			broken = http.ErrAbortHandler
		}
		f.finishResponse(broken)
	}()
	next.ServeHTTP(f, f.request)
	returned = true
}

// finishResponse ends a fetch whose handler has returned, or panicked with broken, and calls finish.
func (f *fetch) finishResponse(broken any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if broken == nil && f.status == 0 {
		f.beginResponse(http.StatusOK)
	}
	if broken == nil && f.status != http.StatusNotModified && (f.request.Context().Err() != nil || !f.isWhole()) {
		broken = http.ErrAbortHandler
	}
	f.finish(broken)
}

// isWhole reports whether the body has the length that the handler declared.
func (f *fetch) isWhole() bool { return f.declaredLength < 0 || f.declaredLength == f.length }

// fetchBackoff is the longest pause of a variant after a fetch that failed, was denied, or had no response to store.
const fetchBackoff = time.Second

// isBackingOff reports whether now is before until, unless until is more than fetchBackoff ahead: it was set before the
// clock went back then, because it is never set further ahead.
func isBackingOff(now, until time.Time) bool {
	d := until.Sub(now)
	return d > 0 && d <= fetchBackoff
}

// outcome is the effect of a fetch on its entry.
type outcome struct {
	answer    *answer   // to store; may be nil
	notStored bool      // the handler's response must not be stored
	failed    bool      // the handler failed
	retryAt   time.Time // set if the limits denied the fetch
}

// finish ends a fetch whose response is complete, or broken: it chooses the result for the client, and the answer to be
// stored or the reason why none is, and calls release, which applies that to the store. It needs mu.
func (f *fetch) finish(broken any) {
	now := f.now()
	o := outcome{answer: f.answer}
	f.panicked, f.trailer = broken, f.trailerFields()
	switch {
	case f.status == http.StatusNotModified && f.held && broken == nil:
		o.answer = f.freshenPrior(now)
	case f.backup != nil && (f.held || f.status == 0):
		f.result, f.held, broken = f.backup, true, nil
		o = outcome{failed: true}
	case broken != nil:
		o = outcome{failed: true}
	case o.answer != nil && len(f.trailer) > 0: // not announced
		o.answer, f.why = nil, whyStream
	case o.answer != nil:
		o.answer.setBody(f.body)
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
	if f.slowTimer != nil {
		f.slowTimer.Stop()
	}
	f.release(o, now)
	f.releasePrior()
	f.notify()
}

// releasePrior releases the answer that a 304 would have freshened.
func (f *fetch) releasePrior() {
	if f.prior != nil {
		f.prior.memory.release()
	}
}

// release takes the fetch out of its entry and ends the waiting of all requests, for good. If that has happened before,
// it stores the answer of o, if there is one, as a late one. It needs mu.
func (f *fetch) release(o outcome, now time.Time) {
	switch {
	case !f.released:
		f.released = true
		f.store.finishFetch(f, o, now)
		f.wakeWaiters()
	case o.answer != nil:
		f.store.storeLate(f, o.answer, now)
	}
}

// freshenPrior updates the stored response after a 304. It needs mu.
func (f *fetch) freshenPrior(now time.Time) *answer {
	a, why := f.prior.freshenedCopy(f.sent, f.serve, now)
	f.why = why
	if f.result = a; a == nil {
		f.result = f.prior
	}
	return a
}

// finishDenied ends a fetch that never began, because the limits of the key denied it.
func (f *fetch) finishDenied(retry time.Time, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release(outcome{retryAt: retry}, now)
	f.releasePrior()
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
	Cookies  []string // lines of Cookie before cookies were removed for the handler, or nil if none were
	counted  bool
	again    bool // its fetch lacked a field by which the response differs
}

// count calls Count, once.
func (p *PendingRequest) count(v *verdict.Verdict) {
	if !p.counted {
		p.counted = true
		p.Count(v)
	}
}

// Gate decides about requests that the cache cannot answer. *httplimit.HTTPGate is one.
type Gate interface {
	// ChargeKeys decides whether a request may go to the handler, by the limits of its keys, with the cookies that it
	// had. If the verdict has a Lease, KeepLease has to follow.
	ChargeKeys(r *http.Request, cookies []string) verdict.Verdict
	// KeepLease keeps a lease until release is called. The lease may be nil.
	KeepLease(l *verdict.Lease) (release func())
	// ServeAllowed serves an allowed request with a handler. onStatus is nil, or called with the status of the response
	// when it begins.
	ServeAllowed(w http.ResponseWriter, r *http.Request, v *verdict.Verdict, next http.Handler,
		onStatus func(status int))
}
