// Package adapter joins a pipeline with a framework that has handlers of its own. The adapters of this project
// (adapters/gin, adapters/grpc and others) use it. A service uses an adapter, or the middleware of package hotparam.
package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Adapter judges the requests of one framework by options. C is the type that the framework passes to its handlers. Any
// number of goroutines may use it.
type Adapter[C any] struct {
	gate    *httplimit.HTTPGate
	clients *httplimit.Clients
	options hotparam.Options[C]
	answers httplimit.Responder
}

// New returns an Adapter. It panics on options without a meaning, such as the status 200, and on a nil Pipeline.
func New[C any](p *hotparam.Pipeline, o hotparam.Options[C]) *Adapter[C] {
	gate, clients := pipeline.HTTPGate(p)
	a := &Adapter[C]{gate: gate, clients: clients, options: o,
		answers: httplimit.MustResponder(o.Status, o.Headers, o.HideLimitHeaders, o.ExposeHeaders)}
	a.answers.Clients = clients
	return a
}

// Decision is a request that an Adapter judged. An allowed request must be ended by Done in any case. The zero value,
// which has no Verdict, tracks nothing.
type Decision struct {
	hotparam.Decision
	judged  *hottype.JudgedRequest // for Context; nil without Options.InContext
	grant   *httplimit.PendingGrant
	end     func() // ends the context that outlives the client; may be nil
	endBody func() // ends the reading of an awaited body; may be nil
}

// newDecision returns the decision with a verdict. tracker is nil if nothing of the request is tracked.
func (a *Adapter[C]) newDecision(v *hotparam.Verdict, tracker *httplimit.RequestTracker) *Decision {
	return &Decision{Decision: *pipeline.NewDecision(v, tracker, &a.answers).(*hotparam.Decision)}
}

// Context returns ctx with the verdict and the client, for hotparam.FromContext. Without Options.InContext, or for a
// request that Options.Skip skipped, it returns ctx. A framework passes it to its handlers; Enforce has already put it
// into its request.
func (d *Decision) Context(ctx context.Context) context.Context {
	if d.judged == nil {
		return ctx
	}
	return httplimit.WithJudged(ctx, d.judged)
}

// ResponseStarted records that the response begins, with its HTTP status, for which the request may be refunded. Only
// the first call counts. If the header of the response grants its client a class (docs/rules.md#passes), the field
// becomes a cookie, so call it before the header is sent.
func (d *Decision) ResponseStarted(status int) {
	d.grant.ResponseStarted()
	d.Decision.ResponseStarted(status)
}

// Done records that the response has ended. A request without a response failed: its handler panicked. Only the first
// call counts.
func (d *Decision) Done() {
	if d.end != nil {
		d.end()
	}
	if d.endBody != nil {
		d.endBody()
	}
	d.grant.Done()
	d.Decision.Done()
}

// Enforce counts and judges a request, and responds to it if it is denied. The result is nil if the request goes no
// further. The framework should receive the error, which comes from Deny, from OnClientError, or from a request that
// ended while it was held back. Enforce replaces the body of r: adaptive limits watch it, and limits of requests in
// flight have read its beginning.
func (a *Adapter[C]) Enforce(c C, w http.ResponseWriter, r *http.Request) (*Decision, error) {
	if a.options.Forwards {
		a.clients.BeforeForwarding(r)
	}
	if a.options.Skip != nil && a.options.Skip(c) {
		return a.enforceAwaited(c, w, r)
	}
	awaited, endBody, ok := a.gate.AwaitBody(w, r)
	switch {
	case !ok:
		return nil, nil
	case awaited == r:
		return a.enforceAwaited(c, w, r)
	}
	*r = *awaited
	d, err := a.enforceAwaited(c, w, r)
	if d == nil {
		endBody()
		return nil, err
	}
	d.endBody = endBody
	return d, nil
}

// enforceAwaited does the same as Enforce for a request whose body has been awaited.
func (a *Adapter[C]) enforceAwaited(c C, w http.ResponseWriter, r *http.Request) (*Decision, error) {
	d, tracker, err := a.decideBy(c, r, a.gate.Decide)
	if d != nil {
		d.grant = a.gate.GrantOf(w, r)
	}
	switch {
	case errors.Is(err, httplimit.ErrAnswered):
		return nil, nil
	case err != nil:
		return nil, err
	case d.Reason == 0:
		return d, nil
	}
	if proofs, _ := a.gate.UsesProofs(); proofs {
		httplimit.StripProofs(r)
	}
	switch {
	case d.Allowed:
		a.SetHeader(w.Header(), d.Verdict)
		tracker.SetHeader(w.Header())
		tracker.HandlerStartedAfterBody(r)
		if a.options.InContext {
			*r = *r.WithContext(d.Context(r.Context()))
		}
		if a.options.Forwards && tracker.OutlivesClient() {
			var ctx context.Context
			ctx, d.end = httplimit.Outlive(r.Context(), httplimit.AbandonedFor)
			*r = *r.WithContext(ctx)
		}
		return d, nil
	case a.options.Deny != nil:
		a.answers.SetDenied(w.Header(), d.Verdict, a.answers.UsesTLS(r, d.Verdict))
		return nil, a.options.Deny(c, d.Verdict)
	}
	a.answers.WriteDenial(w, r, d.Verdict)
	return nil, nil
}

// Decide counts and judges a request, for protocols that have denials of their own. It reads method, host, RequestURI
// (or URL), header, remote address and context of r. A request that has to wait has waited when it returns. With an
// error the request goes no further.
func (a *Adapter[C]) Decide(c C, r *http.Request) (*Decision, error) {
	d, _, err := a.decideBy(c, r, a.gate.Decide)
	return d, err
}

// DecideOpening decides like Decide, for a stream that opens before its first message has arrived. If the target has no
// query, the parameters are unknown: rules that read the query judge the stream and do not count it.
func (a *Adapter[C]) DecideOpening(c C, r *http.Request) (*Decision, error) {
	d, _, err := a.decideBy(c, r, a.gate.DecideOpening)
	return d, err
}

// decideBy decides like Decide, by a method of the gate. It also returns the tracker of an allowed request, or nil if
// nothing is tracked.
func (a *Adapter[C]) decideBy(c C, r *http.Request, by func(*http.Request, hotparam.Client, int64) verdict.Verdict) (
	*Decision, *httplimit.RequestTracker, error) {
	if a.options.Skip != nil && a.options.Skip(c) {
		return a.newDecision(&hotparam.Verdict{Allowed: true}, nil), nil, nil
	}
	client, err := httplimit.NameClient(c, a.options.Client, a.options.OnClientError)
	if err != nil {
		return nil, nil, err
	}
	cost := int64(0)
	if a.options.Cost != nil {
		cost = a.options.Cost(c)
	}
	v := by(r, client, cost)
	if !v.Allowed {
		return a.newDecision(&v.Verdict, nil), nil, nil
	}
	tracker := a.gate.Track(r.Context(), &v)
	d := a.newDecision(&v.Verdict, tracker)
	if a.options.InContext {
		d.judged = a.clients.JudgedRequest(r, client, &v.Verdict)
	}
	if !httplimit.Wait(r.Context(), &v.Verdict) {
		d.Done()
		return nil, nil, fmt.Errorf("adapter: the request ended while it waited: %w", r.Context().Err())
	}
	return d, tracker, nil
}

// SetHeader sets the header fields of a verdict: the fields of the limit, and Retry-After for a denial. It sets no
// cookie of a visitor pass, because clients of protocols with denials of their own keep no cookies.
func (a *Adapter[C]) SetHeader(h http.Header, v *hotparam.Verdict) {
	switch {
	case !v.Allowed:
		denied := *v
		denied.Pass = nil
		a.answers.SetDenied(h, &denied, false)
	case !a.answers.HideLimits:
		a.answers.SetLimits(h, v)
	}
}
