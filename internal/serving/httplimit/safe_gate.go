package httplimit

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Gate decides about requests. *gate.Gate is one.
type Gate interface {
	Decide(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict
}

// CachingGate is a Gate that decides in two steps for a response cache. *gate.Gate is one.
type CachingGate interface {
	Gate
	DecideForCache(ctx context.Context, now time.Time, req *hottype.Request) (
		v hottype.Verdict, count func(last *hottype.Verdict))
	ChargeKeys(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict
}

// LeaseGate is a Gate that bounds requests in flight. *gate.Gate is one.
type LeaseGate interface {
	Gate
	// Release gives back what a request held; Renew prolongs it.
	Release(now time.Time, l *hottype.Lease) (held bool)
	Renew(now time.Time, l *hottype.Lease)
}

// SafeGateConfig is what a SafeGate is built from.
type SafeGateConfig struct {
	// Gate is required.
	Gate Gate
	// Clients finds the client of a request; nil trusts no proxy.
	Clients *Clients
	// Cost is what a request takes from its limits; nil, or 0: 1.
	Cost func(*http.Request) int64
	// RetryJitter is the most that the RetryAfter of a denial is made longer, at random; never shorter.
	RetryJitter time.Duration
	// Holds says that the caller calls Hold for each verdict with a Lease. Only then do
	// limits of requests in flight apply.
	Holds bool
	// MaxWait is the longest time for which the caller of [SafeGate.Decide] can hold a request back, because a gateway
	// waits no longer for its answer and lets the request pass then. A request whose wait is longer is denied. The
	// deadline of a context takes its place; 0 means no bound.
	MaxWait time.Duration
	// AbandonedFor is how long a request that holds a slot goes on after its client has left; 0: it ends at once.
	AbandonedFor time.Duration
	// GuardsBodies says that no listener of ours bounds how long bodies take, so that AwaitBody does.
	GuardsBodies bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives panics; nil: discarded.
	Log *slog.Logger
}

// SafeGate decides about HTTP requests with a Gate. It recovers, counts and logs a panic of the
// Gate, and allows the request: limiting must not break what it protects.
// It may be used by many goroutines.
type SafeGate struct {
	cfg      SafeGateConfig
	serving  CachingGate // nil: the Gate does not implement it
	holder   LeaseGate   // nil: the Gate does not implement it, or the caller releases nothing
	slots    SlotGate    // the same as holder, if it knows slots before it decides
	observer OutcomeGate // nil: the Gate does not implement it
	requests sync.Pool   // of *hottype.Request, which the Gate's interface makes escape
	panics   atomic.Uint64

	bodies      SlowBodies   // of GuardsBodies
	beforeSlots atomic.Int64 // bytes of bodies that AwaitBody has read
}

// NewSafeGate builds a SafeGate; it panics without a Gate.
func NewSafeGate(cfg SafeGateConfig) *SafeGate {
	if cfg.Gate == nil {
		panic("httplimit: NewSafeGate: no gate")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	g := &SafeGate{cfg: cfg}
	g.serving, _ = cfg.Gate.(CachingGate)
	g.observer, _ = cfg.Gate.(OutcomeGate)
	if cfg.Holds {
		g.holder, _ = cfg.Gate.(LeaseGate)
		g.slots, _ = cfg.Gate.(SlotGate)
		g.bodies.Timeout = heldPatience
	}
	g.requests.New = func() any { return new(hottype.Request) }
	return g
}

// DecideHTTP decides about an HTTP request by its target as received, its Host, its client
// and its header. The body is not read.
func (g *SafeGate) DecideHTTP(r *http.Request) hottype.Verdict {
	return g.DecideFor(r, hottype.Client{}, 0)
}

// DecideFor decides about an HTTP request of this client; the zero one is found by the connection and the header. Of
// cost 0 the Cost of the configuration is used.
func (g *SafeGate) DecideFor(r *http.Request, client hottype.Client, cost int64) (v hottype.Verdict) {
	defer g.finish(&v)
	req := g.describe(r, client, cost)
	v = g.cfg.Gate.Decide(r.Context(), g.cfg.Now(), req)
	g.release(req)
	return v
}

// DecideForCache is DecideHTTP for a response cache, if the Gate is a CachingGate. The cache may answer requests
// with Verdict.Cache, and calls count with their last verdict; else count is nil.
func (g *SafeGate) DecideForCache(r *http.Request) (v hottype.Verdict, count func(last *hottype.Verdict)) {
	if g.serving == nil {
		return g.DecideHTTP(r), nil
	}
	defer g.finish(&v)
	req := g.describe(r, hottype.Client{}, 0)
	v, count = g.serving.DecideForCache(r.Context(), g.cfg.Now(), req)
	g.release(req)
	return v, count
}

// ChargeKeys decides whether a request that was left to a response cache may go on.
func (g *SafeGate) ChargeKeys(r *http.Request) (v hottype.Verdict) {
	defer g.finish(&v)
	req := g.describe(r, hottype.Client{}, 0)
	v = g.serving.ChargeKeys(r.Context(), g.cfg.Now(), req)
	g.release(req)
	return v
}

// describe makes the gate's request of an HTTP request. It goes back by release.
func (g *SafeGate) describe(r *http.Request, client hottype.Client, cost int64) *hottype.Request {
	req := g.requests.Get().(*hottype.Request)
	req.Method, req.Host, req.Target = r.Method, r.Host, Target(r)
	req.Client, req.Header, req.Cost, req.WillRelease = client, r.Header, cost, g.holder != nil
	if client.IsZero() {
		g.cfg.Clients.Identify(req, peerOf(r), r.Header.Values)
	}
	if cost == 0 && g.cfg.Cost != nil {
		req.Cost = g.cfg.Cost(r)
	}
	return req
}

func (g *SafeGate) release(req *hottype.Request) {
	*req = hottype.Request{}
	g.requests.Put(req)
}

// Decide decides about a request that a gateway describes, and returns the verdict as answers to gateways quote it.
func (g *SafeGate) Decide(ctx context.Context, req *hottype.Request) hottype.Verdict {
	return g.Recover(func() hottype.Verdict {
		v := g.cfg.Gate.Decide(ctx, g.cfg.Now(), req)
		g.boundWait(ctx, &v)
		return v
	})
}

// GatewayWait is the MaxWait of the listeners that gateways ask: half of the time for which the files of deploy/ wait
// for an answer.
const GatewayWait = 50 * time.Millisecond

// answerTime is what remains of a context for the way of the answer.
const answerTime = 10 * time.Millisecond

// boundWait denies a request that the gateway would let pass before its wait ends.
func (g *SafeGate) boundWait(ctx context.Context, v *hottype.Verdict) {
	if g.cfg.MaxWait == 0 || v.Wait <= 0 {
		return
	}
	most := g.cfg.MaxWait
	if end, ok := ctx.Deadline(); ok {
		most = time.Until(end) - answerTime
	}
	if v.Wait > most {
		v.Allowed, v.RetryAfter, v.Wait = false, v.Wait, 0
	}
}

// Recover is Decide in another way that may panic.
func (g *SafeGate) Recover(decide func() hottype.Verdict) (v hottype.Verdict) {
	defer g.finish(&v)
	v = decide()
	Quote(&v)
	return v
}

// Panics is how many requests passed because deciding panicked.
func (g *SafeGate) Panics() uint64 { return g.panics.Load() }

// finish turns a panic into a verdict that lets pass, and adds jitter to a denial, so that clients that
// are denied together do not retry together.
func (g *SafeGate) finish(v *hottype.Verdict) {
	if p := recover(); p != nil {
		*v = hottype.Verdict{Allowed: true, Reason: hottype.ReasonStore, Mode: hottype.ModeEnforce}
		g.cfg.Log.Error("httplimit: deciding panicked, the request passes", "panic", p, "count", g.panics.Add(1),
			"stack", string(debug.Stack()))
	} else if !v.Allowed && g.cfg.RetryJitter > 0 {
		v.RetryAfter = withJitter(v.RetryAfter, g.cfg.RetryJitter, rand.Float64())
	}
}
