package hotparam

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

// Adapter judges the requests of one framework by Options. The adapters are made of it; most callers should use one of
// them, or [Pipeline.Middleware]. Many goroutines may use it.
type Adapter[C any] struct {
	gate    *httplimit.HTTPGate
	clients *httplimit.Clients
	options Options[C]
	answers httplimit.Responder
}

// NewAdapter builds an Adapter. It panics on options that mean nothing, such as the status 200, and on a nil Pipeline.
func NewAdapter[C any](p *Pipeline, o Options[C]) *Adapter[C] {
	p.mustBeBuilt()
	l := &Adapter[C]{gate: p.gate, clients: p.options.Clients, options: o, answers: httplimit.Responder{
		Status: o.Status, Headers: o.Headers, HideLimits: o.HideLimitHeaders, ExposeHeaders: o.ExposeHeaders,
	}}
	if err := l.answers.Check(); err != nil {
		panic(fmt.Sprintf("hotparam: %v", err))
	}
	return l
}

// Decision is a request that was judged. An allowed one must be ended by Done in any case: it may hold a place of a
// limit of requests in flight. Many goroutines may use it.
type Decision struct {
	// Verdict is what was decided, never nil. That of a request that Skip skipped allows it and has no Reason.
	*Verdict
	tracker *httplimit.RequestTracker
	end     func() // of the context that outlives the client; nil: none does
	endBody func() // of a body that was awaited; nil: none was
}

// Proceed reports whether the request goes on.
func (j *Decision) Proceed() bool { return j.Allowed }

// HandlerStarted says that the handler has the whole request. Adaptive limits follow how long it takes from there to
// the answer; what never begins tells them nothing. After Enforce a request has begun when its body was read.
func (j *Decision) HandlerStarted() { j.tracker.HandlerStarted() }

// ResponseStarted says that the answer begins, and its HTTP status, by which a request may get back what it took. Only
// the first call means something.
func (j *Decision) ResponseStarted(status int) { j.tracker.ResponseStarted(status) }

// Done says that the answer has ended. A request that was not answered failed: its handler panicked. Only the first
// call means something.
func (j *Decision) Done() {
	if j.end != nil {
		j.end()
	}
	if j.endBody != nil {
		j.endBody()
	}
	j.tracker.Done()
}

// Enforce counts and judges a request and answers it if it is denied; the result is nil where it does not go on. The
// error is that of Deny, of OnClientError, or of a request that ended while it was held back; the framework should have
// it. Where limits adapt the body of r is replaced by one that is watched, and where they bound requests in flight by
// one whose beginning was read.
func (l *Adapter[C]) Enforce(c C, w http.ResponseWriter, r *http.Request) (*Decision, error) {
	if l.options.Forwards {
		l.clients.BeforeForwarding(r)
	}
	if l.options.Skip != nil && l.options.Skip(c) {
		return l.enforce(c, w, r)
	}
	awaited, endBody, ok := l.gate.AwaitBody(w, r)
	switch {
	case !ok:
		return nil, nil
	case awaited == r:
		return l.enforce(c, w, r)
	}
	*r = *awaited
	j, err := l.enforce(c, w, r)
	if j == nil {
		endBody()
		return nil, err
	}
	j.endBody = endBody
	return j, nil
}

// enforce is Enforce for a request whose body has been awaited.
func (l *Adapter[C]) enforce(c C, w http.ResponseWriter, r *http.Request) (*Decision, error) {
	j, err := l.Decide(c, r)
	switch {
	case errors.Is(err, errResponseWritten):
		return nil, nil
	case err != nil:
		return nil, err
	case j.Reason == 0:
		return j, nil
	case j.Allowed:
		l.SetHeader(w.Header(), j.Verdict)
		j.tracker.HandlerStartedAfterBody(r)
		if l.options.Forwards && j.Lease != nil {
			var ctx context.Context
			ctx, j.end = httplimit.Outlive(r.Context(), httplimit.AbandonedFor)
			*r = *r.WithContext(ctx)
		}
		return j, nil
	case l.options.Deny != nil:
		l.SetHeader(w.Header(), j.Verdict)
		return nil, l.options.Deny(c, j.Verdict)
	}
	l.answers.WriteDenied(w, r.Method, r.Header["Accept"], j.Verdict)
	return nil, nil
}

// Decide counts and judges a request, for protocols that have denials of their own. Of r it reads method, host,
// RequestURI (or URL), header, remote address and context. A request that has to wait has waited when it returns. With
// an error the request goes no further.
func (l *Adapter[C]) Decide(c C, r *http.Request) (*Decision, error) {
	if l.options.Skip != nil && l.options.Skip(c) {
		return &Decision{Verdict: &Verdict{Allowed: true}}, nil
	}
	client, err := l.client(c)
	if err != nil {
		return nil, err
	}
	cost := int64(0)
	if l.options.Cost != nil {
		cost = l.options.Cost(c)
	}
	v := l.gate.Decide(r, client, cost)
	if !v.Allowed {
		return &Decision{Verdict: &v}, nil
	}
	j := &Decision{Verdict: &v, tracker: l.gate.Track(r.Context(), &v)}
	if !httplimit.Wait(r.Context(), &v) {
		j.Done()
		return nil, fmt.Errorf("hotparam: the request ended while it waited: %w", r.Context().Err())
	}
	return j, nil
}

// SetHeader sets the header fields of a verdict: those of the limit, and Retry-After of a denial.
func (l *Adapter[C]) SetHeader(h http.Header, v *Verdict) {
	switch {
	case !v.Allowed:
		l.answers.SetDenied(h, v)
	case !l.answers.HideLimits:
		l.answers.SetLimits(h, v)
	}
}

// errResponseWritten says that OnClientError was called and returned nil.
var errResponseWritten = errors.New("hotparam: the client of this request is not known")

// maxClientName is the longest name that is kept as it is. A longer one is kept as its hash: names come from clients,
// and windows hold many.
const maxClientName = 128

// client is who Client names, the zero value where the address says it.
func (l *Adapter[C]) client(c C) (Client, error) {
	if l.options.Client == nil {
		return Client{}, nil
	}
	name, err := l.options.Client(c)
	if err != nil {
		if l.options.OnClientError != nil {
			return Client{}, cmp.Or(l.options.OnClientError(c, err), errResponseWritten)
		}
		name = "" // its address says who it is
	}
	if name == "" {
		return Client{}, nil
	}
	if len(name) > maxClientName {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:])
	}
	return Client{Name: name}, nil
}

// rpcStatuses are the HTTP statuses of the codes of gRPC and Connect, in their order.
var rpcStatuses = [...]int{
	http.StatusOK,
	0,                              // canceled
	http.StatusInternalServerError, // unknown
	http.StatusBadRequest,          // invalid argument
	http.StatusGatewayTimeout,      // deadline exceeded
	http.StatusNotFound,
	http.StatusConflict,        // already exists
	http.StatusForbidden,       // permission denied
	http.StatusTooManyRequests, // resource exhausted
	http.StatusBadRequest,      // failed precondition
	http.StatusConflict,        // aborted
	http.StatusBadRequest,      // out of range
	http.StatusNotImplemented,
	http.StatusInternalServerError, // internal
	http.StatusServiceUnavailable,
	http.StatusInternalServerError, // data loss
	http.StatusUnauthorized,        // unauthenticated
}

// HTTPStatusFromRPC is the status of HTTP that says of a handler what a code of gRPC or Connect does: 0 where the
// client did not wait for the answer.
func HTTPStatusFromRPC(code uint32) int {
	if code < uint32(len(rpcStatuses)) {
		return rpcStatuses[code]
	}
	return http.StatusInternalServerError
}

// Middleware protects a handler: each request is counted and judged before next
// sees it. One that is over a limit is answered 429 with Retry-After, RateLimit
// fields and a problem+json body. A hot key whose rule has a cache is answered from the
// cache. next gets the server's own ResponseWriter, or where limits adapt a thin one
// around it, so flushing and hijacking work as before, except where the cache fetches an
// response for all clients. It panics if next is nil.
func (p *Pipeline) Middleware(next http.Handler) http.Handler {
	p.mustBeBuilt()
	checkHandler(next)
	return p.layer.Wrap(next)
}

// MiddlewareWith is Middleware with options. A client whom Options.Client names is known to
// the handler and never answered from the cache, which has one memory for all middleware of
// a pipeline. It panics on options that mean nothing, such as the status 200, and on a nil handler.
func (p *Pipeline) MiddlewareWith(o Options[Exchange]) func(http.Handler) http.Handler {
	own := NewAdapter(p, o)
	answers := own.answers
	if o.Deny != nil {
		// no caller takes the error
		answers.Deny = func(w http.ResponseWriter, r *http.Request, v *hottype.Verdict) {
			_ = o.Deny(Exchange{w, r}, v)
		}
	}
	options := p.options
	options.Answers, options.SharedCache, options.Forwards = answers, p.layer.Cache(), o.Forwards
	asks := o.Client != nil || o.Cost != nil
	if asks {
		options.Client = func(r *http.Request) Client { return requestOptionsOf(r).client }
		options.Cost = func(r *http.Request) int64 { return requestOptionsOf(r).cost }
	}
	layer := middleware.New(p.parts.Gate, options)
	return func(next http.Handler) http.Handler {
		checkHandler(next)
		limited := layer.Wrap(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := Exchange{w, r}
			if o.Skip != nil && o.Skip(x) {
				next.ServeHTTP(w, r)
				return
			}
			if asks {
				client, err := own.client(x)
				if err != nil {
					return // Error has answered
				}
				said := requestOptions{client: client}
				if o.Cost != nil {
					said.cost = o.Cost(x)
				}
				r = r.WithContext(context.WithValue(r.Context(), requestOptionsKey{}, said))
			}
			limited.ServeHTTP(w, r)
		})
	}
}

// requestOptions is what the options say of a request. It is in the context, because the cache asks
// for it again when it fetches an answer.
type requestOptions struct {
	client Client
	cost   int64
}

type requestOptionsKey struct{}

func requestOptionsOf(r *http.Request) requestOptions {
	a, _ := r.Context().Value(requestOptionsKey{}).(requestOptions)
	return a
}
