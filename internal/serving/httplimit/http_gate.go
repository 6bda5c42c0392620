package httplimit

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// Gate decides about requests. *gate.Gate is one.
type Gate interface {
	// Begin decides. With releases the caller releases the lease and reports the status of the response.
	Begin(ctx context.Context, now time.Time, req *hottype.Request, releases bool) verdict.Verdict
	// DecideForCache and ChargeKeys decide in two steps for a response cache.
	DecideForCache(ctx context.Context, now time.Time, req *hottype.Request) (
		v verdict.Verdict, count func(last *verdict.Verdict))
	ChargeKeys(ctx context.Context, now time.Time, req *hottype.Request) verdict.Verdict
	// UsesProofs reports whether clients prove classes by cookies, and whether responses grant some of them. Grant
	// returns the pass of a class that a response grants, "NAME=VALUE" of a cookie, or "" if none may grant it.
	UsesProofs() (cookies, grants bool)
	Grant(now time.Time, class string) string
	// Panicked records a panic of a function that describes a request, and returns the verdict that lets it pass.
	Panicked(p any) verdict.Verdict

	// NeedsSlot reports whether Begin would ask for a slot of a key or of hot requests to an upstream, or would measure
	// the time of the request.
	NeedsSlot(now time.Time, req *hottype.Request) bool
	// Release releases the slots of a request, and Renew prolongs them. ResponseStarted releases the slots that a
	// request holds only until then.
	Release(now time.Time, l *verdict.Lease) (held bool)
	Renew(now time.Time, l *verdict.Lease)
	ResponseStarted(now time.Time, l *verdict.Lease)
	// Refund refunds the charges that the status of a response refunds.
	Refund(now time.Time, r *verdict.Refund, status int)

	// UpstreamBegins records that a request waits for an upstream, and UpstreamEnds how long it waited. With status 0
	// the client did not wait for the response.
	UpstreamBegins(now time.Time, upstream string)
	UpstreamEnds(now time.Time, upstream string, took time.Duration, status int)
}

// HTTPGateConfig configures an HTTPGate.
type HTTPGateConfig struct {
	// Gate is required.
	Gate Gate
	// Clients finds the client of a request; nil trusts no proxy.
	Clients *Clients
	// Cost returns the cost of a request; if it is nil or returns 0, the cost is 1.
	Cost func(*http.Request) int64
	// InContext makes ServeAllowed put the verdict and the client into the context of the request, for JudgedFrom.
	// Client names this client; if it is nil or returns the zero value, connection and header identify the client.
	InContext bool
	Client    func(*http.Request) hottype.Client
	// AbandonedFor is how long a request that holds a slot goes on after its client has left. With 0 it ends at once.
	AbandonedFor time.Duration
	// GuardsBodies makes AwaitBody bound the time that bodies take. It is for processes that do not use package
	// listener.
	GuardsBodies bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// HTTPGate takes requests of net/http through a Gate: it describes them, keeps their slots until their handlers have
// returned, and reports their outcomes. Any number of goroutines may use it.
type HTTPGate struct {
	cfg      HTTPGateConfig
	requests sync.Pool // of *hottype.Request, which the Gate's interface makes escape

	bodies      SlowBodies   // used if GuardsBodies is set
	beforeSlots atomic.Int64 // bytes of bodies that AwaitBody has read
}

// NewHTTPGate returns an HTTPGate. It panics without a Gate.
func NewHTTPGate(cfg HTTPGateConfig) *HTTPGate {
	if cfg.Gate == nil {
		panic("httplimit: NewHTTPGate: no gate")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	g := &HTTPGate{cfg: cfg}
	g.bodies.Timeout = heldPatience
	g.requests.New = func() any { return new(hottype.Request) }
	return g
}

// Decide decides about a request of this client. A zero client stands for the client of the connection and the header,
// and a cost of 0 for the Cost of the configuration. The body is not read.
func (g *HTTPGate) Decide(r *http.Request, client hottype.Client, cost int64) verdict.Verdict {
	return g.decideRequest(r, client, cost, false)
}

// DecideOpening is like Decide, for a stream that opens before its first message has come. Without a query its
// parameters are unknown.
func (g *HTTPGate) DecideOpening(r *http.Request, client hottype.Client, cost int64) verdict.Verdict {
	return g.decideRequest(r, client, cost, true)
}

func (g *HTTPGate) decideRequest(r *http.Request, client hottype.Client, cost int64, opening bool) (v verdict.Verdict) {
	defer g.recoverTo(&v)
	req := g.gateRequest(r, client, cost)
	req.ParamsUnknown = opening && !strings.Contains(req.Target, "?")
	v = g.cfg.Gate.Begin(r.Context(), g.cfg.Now(), req, true)
	g.releaseRequest(req)
	return v
}

// DecideForCache is like Decide, for a response cache. The cache may answer requests with Verdict.Cache, and calls
// count with their last verdict. For other requests count is nil.
func (g *HTTPGate) DecideForCache(r *http.Request) (v verdict.Verdict, count func(last *verdict.Verdict)) {
	defer g.recoverTo(&v)
	req := g.gateRequest(r, hottype.Client{}, 0)
	v, count = g.cfg.Gate.DecideForCache(r.Context(), g.cfg.Now(), req)
	g.releaseRequest(req)
	return v, count
}

// ChargeKeys decides whether a request that was left to a response cache may go on. cookies is the result of
// StripProofs, because the limits of keys ask for the passes.
func (g *HTTPGate) ChargeKeys(r *http.Request, cookies []string) (v verdict.Verdict) {
	defer g.recoverTo(&v)
	req := g.gateRequest(r, hottype.Client{}, 0)
	if cookies != nil {
		req.Header = withCookies{r.Header, cookies}
	}
	v = g.cfg.Gate.ChargeKeys(r.Context(), g.cfg.Now(), req)
	g.releaseRequest(req)
	return v
}

// recoverTo lets a request pass if describing it panics. The gate recovers from its own panics.
func (g *HTTPGate) recoverTo(v *verdict.Verdict) {
	if p := recover(); p != nil {
		*v = g.cfg.Gate.Panicked(p)
	}
}

// gateRequest returns the gate's request for an HTTP request: its target as received, its Host, its client and its
// header, which is the client's own word unless the peer is a trusted proxy, also if the service names the client.
// releaseRequest returns it to the pool.
func (g *HTTPGate) gateRequest(r *http.Request, client hottype.Client, cost int64) *hottype.Request {
	req, peer := g.requests.Get().(*hottype.Request), peerOf(r)
	req.Method, req.Host, req.Target = r.Method, r.Host, Target(r)
	req.Header, req.Cost = r.Header, cost
	from := g.cfg.Clients.currentSources()
	req.FromProxy = from.isTrusted(peer)
	from.identify(req, peer, r.Header.Values)
	if !client.IsZero() {
		req.Client = client
	}
	if cost == 0 && g.cfg.Cost != nil {
		req.Cost = g.cfg.Cost(r)
	}
	return req
}

func (g *HTTPGate) releaseRequest(req *hottype.Request) {
	*req = hottype.Request{}
	g.requests.Put(req)
}

// ServeAllowed serves an allowed request with a handler. If the verdict demands it, it measures the upstream, lets a
// request that holds a slot outlive its client, and reports the status of the response to the gate, which may refund
// the request. It calls onStatus, unless nil, with the status when the response begins. If nothing needs the status,
// the handler gets the server's own writer.
func (g *HTTPGate) ServeAllowed(w http.ResponseWriter, r *http.Request, v *verdict.Verdict, next http.Handler,
	onStatus func(status int)) {
	if g.cfg.InContext {
		r = g.withJudged(r, &v.Verdict)
	}
	u := g.newTracker(r.Context(), v)
	if (v.Lease != nil || u.countsTime()) && g.cfg.AbandonedFor > 0 {
		ctx, end := Outlive(r.Context(), g.cfg.AbandonedFor)
		defer end()
		r = r.WithContext(ctx)
		if u != nil && u.timer != nil {
			u.timer.ctx = ctx
		}
	}
	switch {
	case u == nil && onStatus == nil:
		next.ServeHTTP(w, r)
		return
	case u.watchesBody() && hasBody(r):
		r = r.WithContext(r.Context()) // the body belongs to the caller's request
	}
	if u != nil && u.cost != nil {
		u.SetHeader(w.Header())
		w = u.cost.countBytes(w)
		defer u.endCost()
	}
	u.HandlerStartedAfterBody(r)
	ServeWithStatus(w, r, next, func(status int) {
		u.ResponseStarted(status)
		if onStatus != nil {
			onStatus(status)
		}
	})
}

// withJudged returns r with a verdict and the client in its context.
func (g *HTTPGate) withJudged(r *http.Request, v *hottype.Verdict) *http.Request {
	named := hottype.Client{}
	if g.cfg.Client != nil {
		named = g.cfg.Client(r)
	}
	return r.WithContext(WithJudged(r.Context(), g.cfg.Clients.JudgedRequest(r, named, v)))
}
