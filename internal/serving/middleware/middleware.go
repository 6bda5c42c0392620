// Package middleware puts a gate before a net/http handler.
//
//	request ──> client address ──> gate ──> allowed: RateLimit fields, then your handler
//	                                  └──> denied: 429, Retry-After, problem+json
//
// A request without a limit passes without an allocation. The handler gets the ResponseWriter of the server, or a thin
// wrapper of it while responses grant classes, so flushing, hijacking and sendfile work as before. The body is not
// read. If deciding panics, the request is allowed.
package middleware

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// Options configure a layer. The zero value trusts no proxy and answers denied requests with 429.
type Options struct {
	// Clients finds the client of a request behind proxies. If it is nil, the client is the peer of the connection.
	Clients *httplimit.Clients
	// Answers writes the responses to denied requests, and the header fields.
	Answers httplimit.Responder
	// Client names the client. If it is nil or returns the zero value, the address identifies the client. Handlers may
	// answer named clients each in its own way, so their requests are not answered from the cache.
	Client func(*http.Request) hottype.Client
	// Cost returns the cost of a request for its limits. If it is nil or returns 0, the cost is 1.
	Cost func(*http.Request) int64
	// Forwards is true if the handlers send requests on, as httputil.ReverseProxy does. Their URL is then judged,
	// without hop-by-hop fields, and a request that holds a slot outlives its client. Other handlers see the request as
	// the gate does, so nothing is removed for them.
	Forwards bool
	// InContext puts the verdict and the client into the context of requests that the handler gets, for
	// httplimit.JudgedFrom.
	InContext bool
	// Cache configures the responses for hot keys whose rule has a cache. The layer sets its Gate, Answers, Now and
	// Log.
	Cache respcache.Config
	// SharedCache is the cache of another layer, which both use.
	SharedCache *respcache.Cache
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives problems of the cache; nil discards them.
	Log *slog.Logger
}

// Layer is a gate before handlers. Any number of goroutines may use it, before any number of handlers.
type Layer struct {
	gate  *httplimit.HTTPGate
	opt   Options
	cache *respcache.Cache
}

// New returns a layer. It panics on a nil gate and on a status that is not 4xx or 5xx.
func New(gate httplimit.Gate, opt Options) *Layer {
	if err := opt.Answers.Check(); err != nil {
		panic(fmt.Sprintf("middleware: %v", err))
	}
	abandonedFor := time.Duration(0)
	if opt.Forwards {
		abandonedFor = httplimit.AbandonedFor
	}
	opt.Answers.Clients = opt.Clients
	l := &Layer{opt: opt, gate: httplimit.NewHTTPGate(httplimit.HTTPGateConfig{
		Gate: gate, Clients: opt.Clients, Cost: opt.Cost, InContext: opt.InContext, Client: opt.Client,
		AbandonedFor: abandonedFor, GuardsBodies: true, Now: opt.Now,
	})}
	if opt.SharedCache != nil {
		l.cache = opt.SharedCache.With(l.gate, opt.Answers)
		return l
	}
	opt.Cache.Gate, opt.Cache.Answers, opt.Cache.Now, opt.Cache.Log = l.gate, opt.Answers, opt.Now, opt.Log
	l.cache = respcache.New(opt.Cache)
	return l
}

// Wrap puts the layer before a handler.
func (l *Layer) Wrap(next http.Handler) http.Handler {
	scope, granting := l.cache.NewScope(), l.gate.Granting(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.opt.Forwards {
			l.opt.Clients.BeforeForwarding(r)
		}
		r, end, ok := l.gate.AwaitBody(w, r)
		if !ok {
			return
		}
		defer end()
		v, count := l.decideRequest(r)
		next, cookies := next, []string(nil)
		if proofs, grants := l.gate.UsesProofs(); proofs {
			if cookies = httplimit.StripProofs(r); grants {
				next = granting
			}
		}
		if v.Lease != nil {
			defer l.gate.KeepLease(v.Lease)()
		}
		if v.Cache != nil {
			left := &respcache.PendingRequest{Verdict: v, Count: count, Cookies: cookies}
			l.cache.Serve(w, r, left, next, scope)
			return
		}
		if l.opt.Answers.Enforce(w, r, &v.Verdict) {
			l.gate.ServeAllowed(w, r, &v, next, l.cache.Invalidation(w, r, &v, scope))
		}
	})
}

// Unjudged returns a handler for requests that are not decided. Their responses grant classes as others do, and their
// cookies stay, because a layer behind this one may decide them.
func (l *Layer) Unjudged(next http.Handler) http.Handler {
	granting := l.gate.Granting(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, grants := l.gate.UsesProofs(); grants {
			r.Header.Del(httplimit.FieldGrant)
			granting.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (l *Layer) decideRequest(r *http.Request) (v verdict.Verdict, count func(*verdict.Verdict)) {
	if l.opt.Client != nil {
		if c := l.opt.Client(r); !c.IsZero() {
			return l.gate.Decide(r, c, 0), nil
		}
	}
	return l.gate.DecideForCache(r)
}

// Cache returns the response cache of the layer. The caller of New runs it.
func (l *Layer) Cache() *respcache.Cache { return l.cache }
