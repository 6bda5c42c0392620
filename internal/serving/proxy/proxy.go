package proxy

import (
	"cmp"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// Proxy judges requests and forwards the allowed ones. Any number of goroutines may use it.
type Proxy struct {
	gate      *httplimit.HTTPGate
	cfg       Config
	upstreams map[string]*upstream
	denied    atomic.Uint64
	unrouted  atomic.Uint64
	rejected  atomic.Uint64
	connects  atomic.Uint64
	dropped   atomic.Uint64
	cache     *respcache.Cache
}

// New returns a proxy. It opens no connection, so only the requests for an upstream find out that it is down. It panics
// if the gate is nil.
func New(gate httplimit.Gate, cfg Config) (*Proxy, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Answers.Clients = cfg.Clients
	p := &Proxy{
		cfg:       cfg,
		upstreams: make(map[string]*upstream, len(cfg.Upstreams)),
		gate: httplimit.NewHTTPGate(httplimit.HTTPGateConfig{
			Gate: gate, Clients: cfg.Clients, Now: cfg.Now, AbandonedFor: cfg.abandonedFor(),
		}),
	}
	cfg.Cache.Gate, cfg.Cache.Answers, cfg.Cache.Now, cfg.Cache.Log = p.gate, cfg.Answers, cfg.Now, cfg.Log
	p.cache = respcache.New(cfg.Cache)
	usual, h2c := cfg.newTransport(false), cfg.newTransport(true)
	for name, u := range cfg.Upstreams {
		via := usual
		if u.Scheme == schemeH2C {
			plain := *u
			plain.Scheme = "http"
			u, via = &plain, h2c
		}
		p.upstreams[name] = p.newUpstream(name, u, via)
		p.upstreams[name].h2c = via == h2c
	}
	return p, nil
}

// ServeHTTP implements http.Handler. It rejects a request that an upstream may read in another way than it was judged.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.accept(w, r) {
		return
	}
	r, end, ok := p.gate.AwaitBody(w, r)
	if !ok {
		return
	}
	defer end()
	v, count := p.gate.DecideForCache(r)
	var cookies []string
	if proofs, _ := p.gate.UsesProofs(); proofs {
		cookies = httplimit.StripProofs(r)
	}
	defer p.gate.KeepLease(v.Lease)()
	if !v.Allowed {
		p.denied.Add(1)
	}
	if v.Cache != nil {
		up := p.upstreamFor(&v)
		left := &respcache.PendingRequest{Verdict: v, Count: count, Cookies: cookies, Upstream: up.name}
		p.cache.Serve(w, r, left, up, "")
		return
	}
	if p.cfg.Answers.Enforce(w, r, &v.Verdict) {
		p.gate.ServeAllowed(w, r, &v, p.upstreamFor(&v), p.cache.Invalidation(w, r, &v, ""))
	}
}

// Cache returns the response cache of the proxy. The caller runs it.
func (p *Proxy) Cache() *respcache.Cache { return p.cache }

// upstreamFor returns the upstream for a verdict's class.
func (p *Proxy) upstreamFor(v *verdict.Verdict) *upstream {
	if p.cfg.Route == nil {
		return p.upstreams[""]
	}
	u := p.upstreams[p.cfg.Route(v.Class)]
	if u == nil {
		p.unrouted.Add(1)
		return p.upstreams[""]
	}
	return u
}

// Stats are the counters of a proxy since it was built.
type Stats struct {
	Denied   uint64 `metric:"hotparam_proxy_denied_total" help:"Requests denied."`
	Unrouted uint64 `metric:"hotparam_proxy_unrouted_total" help:"Requests sent to the default upstream because their class names an unknown upstream."`
	// Rejected counts requests whose target or host no server should take, or that could not be sent on byte for byte:
	// with a raw "#", space, control character or backslash, a scheme without "//", or an invalid host.
	Rejected      uint64 `metric:"hotparam_proxy_rejected_total" help:"Requests rejected because their target or host is invalid for any server."`
	Connects      uint64 `metric:"hotparam_proxy_connects_total" help:"CONNECT requests, which are rejected with 405."`
	DroppedFields uint64 `metric:"hotparam_proxy_dropped_fields_total" help:"Header fields removed because their name has an underscore."`
	// Upstreams holds the counters of the upstreams by name.
	Upstreams map[string]UpstreamStats `label:"upstream"`
}

// UpstreamStats are the counters of one upstream.
type UpstreamStats struct {
	Requests  uint64 `metric:"hotparam_proxy_upstreams_requests_total" help:"Requests forwarded to this upstream."`
	Failures  uint64 `metric:"hotparam_proxy_upstreams_failures_total" help:"Requests that this upstream did not answer."`
	Abandoned uint64 `metric:"hotparam_proxy_upstreams_abandoned_total" help:"Requests whose client left before this upstream responded, or did not send a complete body."`
	Failing   bool   `metric:"hotparam_proxy_upstreams_failing" help:"1 while this upstream answers no request, or every request with a status of 500 or above."`
}

func (p *Proxy) Stats() Stats {
	s := Stats{
		Denied: p.denied.Load(), Unrouted: p.unrouted.Load(),
		Rejected: p.rejected.Load(), Connects: p.connects.Load(), DroppedFields: p.dropped.Load(),
		Upstreams: make(map[string]UpstreamStats, len(p.upstreams)),
	}
	for name, u := range p.upstreams {
		_, _, failing := u.health.isFailing(p.cfg.now())
		s.Upstreams[name] = UpstreamStats{
			Requests: u.requests.Load(), Failures: u.failures.Load(), Abandoned: u.abandoned.Load(), Failing: failing,
		}
	}
	return s
}
