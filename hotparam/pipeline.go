// Package hotparam protects a service from hot parameters. It counts requests by the parameter values that they ask
// for, finds the values that are hot right now, and limits only those.
//
//	rules, err := hotparam.LoadRules("rules.yaml") // or NewRules, of Go values
//	p, err := hotparam.New(hotparam.Config{Rules: rules})
//	go p.Run(ctx)
//	http.ListenAndServe(":3000", p.Middleware(mux))
//
// With Rules alone, all of it happens in this process:
//
//	request ──> Middleware ──> count ──> window ──> hot keys ──┐
//	               └── hot key? its limit; per-IP windows  <───┘
//
// With Config.Shared, of package shared, any number of processes share one picture: counts go to the aggregators, hot
// keys and overrides come back by Redis, and limits apply to all processes together.
//
// A request whose key is not hot costs one look-up in memory. The body is never read, and counting never waits.
package hotparam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
	"weak"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/logbound"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
	"github.com/hotparam/pipeline/internal/serving/respcache"
	"github.com/hotparam/pipeline/internal/storage/filestore"
)

// Pipeline counts requests, finds hot keys and limits them. Build it with New, call Run once. Any number of goroutines
// may call all other methods, also before Run and after it: requests are then judged by the state that is known, or by
// the rules' on_store_failure if a store is missing.
type Pipeline struct {
	parts *pipeline.Pipeline
	gate  *httplimit.HTTPGate
	layer *middleware.Layer
	// options holds the options of layer, with which the options of MiddlewareWith begin.
	options middleware.Options
	// with holds parts, and the stores that New joined or opened for them.
	with    *pipeline.Connected
	ran     atomic.Bool
	running atomic.Bool
	events  *events // nil without Config.OnEvent
}

// New builds a pipeline. It starts nothing and needs no server to be up; errors are mistakes in cfg.
func New(cfg Config) (*Pipeline, error) {
	set, err := cfg.Rules.orDefault()
	if err != nil {
		return nil, fmt.Errorf("hotparam: Config.Rules: %w", err)
	}
	if err = gate.CheckRetryJitter(cfg.RetryJitter); err != nil {
		return nil, fmt.Errorf("hotparam: Config.RetryJitter: %w", err)
	}
	if cfg.CacheMemory < 0 {
		return nil, fmt.Errorf("hotparam: Config.CacheMemory %d must be 0 or more bytes", cfg.CacheMemory)
	}
	cfg.Log = logbound.Logger(cmp.Or(cfg.Log, slog.Default()))
	for _, w := range set.Warnings {
		cfg.Log.Warn("hotparam: rules: " + w)
	}
	parts := pipeline.Config{
		Rules: set,
		Gate: gate.Config{Budget: cfg.Budget, Instance: lifecycle.InstanceName(cfg.Instance),
			RetryJitter: cfg.RetryJitter, Log: cfg.Log},
		Tally: tally.Config{Log: cfg.Log},
	}
	if parts.Denials, err = cfg.Denials.open(cfg.Log); err != nil {
		return nil, err
	}
	p := &Pipeline{}
	if err = p.connect(&cfg, parts); err != nil {
		if parts.Denials != nil {
			parts.Denials.Close()
		}
		return nil, fmt.Errorf("hotparam: %w", err)
	}
	p.parts.Add(lifecycle.Sources, "requests", p.drain)
	clients := httplimit.NewClients(set.IP.TrustedProxies, set.IP.Client)
	p.options = middleware.Options{
		Clients: clients, Answers: httplimit.Responder{Clients: clients}, Log: cfg.Log,
		Cache: respcache.Config{Memory: cfg.CacheMemory, Served: p.parts.Gate.Cacheable},
	}
	p.layer = middleware.New(p.parts.Gate, p.options)
	p.parts.AddCache(p.layer.Cache())
	p.parts.AddStats(func() any { return p.layer.Cache().Stats() })
	p.gate = httplimit.NewHTTPGate(httplimit.HTTPGateConfig{Gate: p.parts.Gate, Clients: clients, GuardsBodies: true})
	expectRun(weak.Make(p), cfg.Log)
	return p, nil
}

// Decide counts and judges a request that did not come through Middleware, such as a call of another protocol. A
// verdict that allows may have a Wait, which comes first. The error is a negative Cost, or the error of a ctx that has
// ended; nothing is counted then. Limits that need the end of a request (in flight, refund_status, adaptive) do not
// apply: see [Pipeline.Begin].
func (p *Pipeline) Decide(ctx context.Context, r Request) (Verdict, error) {
	if err := p.checkRequest(ctx, &r); err != nil {
		return Verdict{}, err
	}
	v := p.parts.Gate.Decide(ctx, time.Now(), &r)
	httplimit.Quote(&v)
	return v, nil
}

// Begin decides like Decide, for a request whose end the caller reports: Done of the result must be called in any case,
// and ResponseStarted with an HTTP status if refund_status and adaptive limits should follow it.
func (p *Pipeline) Begin(ctx context.Context, r Request) (*Decision, error) {
	if err := p.checkRequest(ctx, &r); err != nil {
		return nil, err
	}
	v := p.parts.Gate.Begin(ctx, time.Now(), &r, true)
	httplimit.Quote(&v.Verdict)
	d := &Decision{Verdict: &v.Verdict, answers: &p.options.Answers}
	if v.Allowed {
		d.tracker = p.gate.Track(ctx, &v)
	}
	return d, nil
}

func (p *Pipeline) checkRequest(ctx context.Context, r *Request) error {
	if err := p.checkBuilt(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("hotparam: decide: %w", err)
	}
	if r.Cost < 0 {
		return fmt.Errorf("hotparam: decide: cost %d must be 0 or more", r.Cost)
	}
	return nil
}

// Count counts a request that is limited elsewhere, or not at all.
func (p *Pipeline) Count(r Request) {
	p.mustBeBuilt()
	p.parts.Gate.Count(time.Now(), &r)
}

// The bounds of the end of Run.
const (
	drainIdle    = 100 * time.Millisecond // without a request, after which the servers have stopped
	drainTimeout = 5 * time.Second
	stopTimeout  = 10 * time.Second // for everything
)

// Purge removes the responses that the cache holds for a key, and returns their number.
func (p *Pipeline) Purge(key hottype.Key) int {
	p.mustBeBuilt()
	return p.layer.Cache().Purge(key)
}

// Run finds hot keys until ctx ends, and returns after the last count was sent.
//
// When ctx ends, requests may still come in while the servers shut down: Run continues until there has been no request
// for 100 ms, for up to 5 s. It returns within 10 s, with nil unless a part failed or did not end in time. Requests
// that are counted later are lost: to lose no count for certain, end ctx after http.Server.Shutdown has returned.
func (p *Pipeline) Run(ctx context.Context) error {
	if err := p.checkBuilt(); err != nil {
		return err
	}
	if p.ran.Swap(true) {
		return errors.New("hotparam: Run was called before")
	}
	p.running.Store(true)
	defer p.running.Store(false)
	defer logbound.Start(p.options.Log)()
	err := p.parts.Run(ctx, stopTimeout, slog.New(slog.DiscardHandler))
	if err = errors.Join(err, p.with.Close()); err != nil {
		return fmt.Errorf("hotparam: run: %w", err)
	}
	return nil
}

// runWithin is the time after which an error is logged if there are requests and Run was not called.
const runWithin = 10 * time.Second

// expectRun logs an error once if requests are counted and Run was not called. It keeps no Pipeline alive.
func expectRun(pipeline weak.Pointer[Pipeline], log *slog.Logger) {
	time.AfterFunc(runWithin, func() {
		switch p := pipeline.Value(); {
		case p == nil || p.ran.Load():
		case p.parts.Tally.Stats().Added == 0:
			expectRun(pipeline, log)
		default:
			log.Error("hotparam: requests come, and Pipeline.Run was not called: no key becomes hot and nothing is sent;" +
				" start it by go p.Run(ctx)")
		}
	})
}

// drain waits for ctx, and then until there are no more requests. It is the part that stops first.
func (p *Pipeline) drain(ctx context.Context) error {
	<-ctx.Done()
	tick := time.NewTicker(drainIdle)
	defer tick.Stop()
	before := p.parts.Tally.Stats().Added
	for range drainTimeout / drainIdle {
		<-tick.C
		now := p.parts.Tally.Stats().Added
		if now == before {
			break
		}
		before = now
	}
	return nil
}

// connect wires the parts: alone, or with the parts of cfg.Shared.
func (p *Pipeline) connect(cfg *Config, parts pipeline.Config) (err error) {
	var overrides *filestore.Overrides // nil if the overrides are shared
	switch {
	case cfg.Shared == nil:
		p.with, overrides, err = newAlone(cfg, parts)
	case cfg.StateDir != "":
		err = errors.New("Config.StateDir keeps the overrides of one process, and Redis has those of Config.Shared; set one")
	case pipeline.ConnectShared == nil:
		err = fmt.Errorf("Config.Shared is a %T; use a shared.Config of package shared", cfg.Shared)
	default:
		p.with, err = pipeline.ConnectShared(cfg.Shared, parts)
	}
	if err != nil {
		return err
	}
	p.parts = p.with.Pipeline
	if cfg.OnEvent != nil {
		p.emitEvents(cfg.OnEvent)
	}
	if overrides != nil {
		overrides.Subscribe(p.parts.SetOverrides) // events follow them too
	}
	return nil
}

func init() { // packages admin, adapter and hotparamprom reach the parts of a pipeline by these
	pipeline.ReadStats = func(of any) []func() any {
		p := of.(*Pipeline)
		p.mustBeBuilt()
		return p.parts.Stats()
	}
	pipeline.HTTPGate = func(of any) (*httplimit.HTTPGate, *httplimit.Clients) {
		p := of.(*Pipeline)
		p.mustBeBuilt()
		return p.gate, p.options.Clients
	}
	pipeline.NewDecision = func(v *hottype.Verdict, t *httplimit.RequestTracker, answers *httplimit.Responder) any {
		return &Decision{Verdict: v, tracker: t, answers: answers}
	}
	pipeline.Extend = func(p any) (*pipeline.Connected, error) { return p.(*Pipeline).partsBeforeRun() }
}

// notBuilt is the error about a nil Pipeline and about the zero value.
const notBuilt = "hotparam: the Pipeline is nil or the zero value: make it with New, and check its error"

// checkBuilt returns an error for a Pipeline that was not made by New.
func (p *Pipeline) checkBuilt() error {
	if p == nil || p.with == nil {
		return errors.New(notBuilt)
	}
	return nil
}

// mustBeBuilt panics on a Pipeline that was not made by New. It is for methods that return no error.
func (p *Pipeline) mustBeBuilt() {
	if err := p.checkBuilt(); err != nil {
		panic(err.Error())
	}
}

// checkHandler panics on a nil handler, as http.Handle does, because each request would.
func checkHandler(next http.Handler) {
	if f, ok := next.(http.HandlerFunc); next == nil || ok && f == nil {
		panic("hotparam: the handler behind the middleware is nil: pass the one to protect, such as a mux")
	}
}

// partsBeforeRun returns the parts of a pipeline that does not run yet.
func (p *Pipeline) partsBeforeRun() (*pipeline.Connected, error) {
	if err := p.checkBuilt(); err != nil {
		return nil, err
	}
	if p.ran.Load() {
		return nil, errors.New("hotparam: the pipeline runs already, or has ended: extend it before Run")
	}
	return p.with, nil
}
