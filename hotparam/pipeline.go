// Package hotparam protects a service from hot parameters. It counts requests by
// the parameter values that they ask for, finds the values that are hot right
// now, and limits only those.
//
//	rules, err := hotparam.LoadRules("rules.yaml") // or NewRules, of Go values
//	p, err := hotparam.New(hotparam.Config{Rules: rules})
//	go p.Run(ctx)
//	http.ListenAndServe(":3000", p.Middleware(mux))
//
// With nothing but Rules, all of it happens in this process:
//
//	request ──> Middleware ──> count ──> window ──> hot keys ──┐
//	               └── hot key? its limit; per-IP windows  <───┘
//
// With Redis and StatsD (or a Sink), any number of processes share one picture:
// counts go to the aggregators, hot keys and overrides come back by Redis, and
// limits hold for all processes together.
//
// A request whose key is not hot costs one look-up in memory. The body is never
// read, and counting never waits.
package hotparam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/logbound"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
	"github.com/hotparam/pipeline/internal/serving/respcache"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// Pipeline counts requests, finds hot keys and limits them. Build it with New, call
// Run once. All other methods may be called by any number of goroutines, also before
// Run and after it: requests are then judged by what is known, and a store that is
// not there by the rules' on_store_failure.
type Pipeline struct {
	parts     *pipeline.Pipeline
	decide    *httplimit.SafeGate
	leaseGate *httplimit.SafeGate // decide for callers that report completion
	layer     *middleware.Layer
	// options are those of layer, and what those of MiddlewareWith begin with.
	options middleware.Options
	// delivered is what became of what the tally handed on; nil: it arrived.
	delivered func() (sent, lost uint64)
	close     func() error // what New opened; nil: nothing
	ran       atomic.Bool

	mu     sync.Mutex
	layers []*middleware.Layer // of MiddlewareWith
}

// New builds a pipeline. It starts nothing and needs no server to be up; errors
// are mistakes in cfg.
func New(cfg Config) (*Pipeline, error) {
	set := rules.Default()
	if cfg.Rules != nil {
		set = cfg.Rules.set
	}
	if err := (&httplimit.Responder{RetryJitter: cfg.RetryJitter}).Check(); err != nil {
		return nil, fmt.Errorf("hotparam: Config.RetryJitter: %w", err)
	}
	if cfg.CacheMemory < 0 {
		return nil, fmt.Errorf("hotparam: Config.CacheMemory %d: want 0 or more bytes", cfg.CacheMemory)
	}
	cfg.Log = logbound.Logger(cmp.Or(cfg.Log, slog.Default()))
	for _, w := range set.Warnings {
		cfg.Log.Warn("hotparam: rules: " + w)
	}
	parts := pipeline.Config{
		Rules: set,
		Gate:  gate.Config{Budget: cfg.Budget, Instance: lifecycle.InstanceName(cfg.Instance), Log: cfg.Log},
		Tally: tally.Config{Log: cfg.Log},
	}
	p := &Pipeline{}
	var err error
	switch counted := cfg.StatsD != "" || cfg.Sink != nil; {
	case cfg.StatsD != "" && cfg.Sink != nil:
		err = errors.New("StatsD and Sink are both set: want one way for counts")
	case cfg.Redis == nil && !counted:
		p.parts, err = pipeline.InProcess(parts, aggregate.Config{Log: cfg.Log})
	case cfg.Redis == nil:
		err = errors.New("StatsD and Sink require Redis, from which the hot set is read")
	case !counted:
		err = errors.New("config.Redis requires StatsD or Sink, by which counts reach an aggregator")
	default:
		err = p.distribute(cfg, parts)
	}
	if err != nil {
		return nil, fmt.Errorf("hotparam: %w", err)
	}
	p.parts.Add(lifecycle.Sources, "requests", p.drain)
	clients := httplimit.NewClients(set.IP.TrustedProxies, set.IP.Client)
	p.options = middleware.Options{
		Clients: clients, Answers: httplimit.Responder{RetryJitter: cfg.RetryJitter}, Log: cfg.Log,
		Cache: respcache.Config{Memory: cfg.CacheMemory, Served: p.parts.Gate.Cacheable},
	}
	p.layer = middleware.New(p.parts.Gate, p.options)
	p.parts.AddCache(p.layer.Cache())
	safe := httplimit.SafeGateConfig{Gate: p.parts.Gate, Clients: clients, RetryJitter: cfg.RetryJitter, Log: cfg.Log}
	p.decide = httplimit.NewSafeGate(safe)
	safe.Holds = true
	p.leaseGate = httplimit.NewSafeGate(safe)
	return p, nil
}

// Decide counts and judges a request that did not come through Middleware, such as
// a call of another protocol. A verdict that allows may ask to Wait first. The error
// is a negative Cost, or that of a ctx which has ended; nothing is counted then.
func (p *Pipeline) Decide(ctx context.Context, r Request) (Verdict, error) {
	if err := ctx.Err(); err != nil {
		return Verdict{}, fmt.Errorf("hotparam: decide: %w", err)
	}
	if r.Cost < 0 {
		return Verdict{}, fmt.Errorf("hotparam: decide: cost %d: want 0 or more", r.Cost)
	}
	return p.decide.Decide(ctx, &r), nil
}

// Count counts a request that is limited elsewhere, or not at all.
func (p *Pipeline) Count(r Request) { p.parts.Gate.Count(time.Now(), &r) }

// Bounds of the end of Run.
const (
	drainIdle    = 100 * time.Millisecond // without a request: the servers have stopped
	drainTimeout = 5 * time.Second
	stopTimeout  = 10 * time.Second // all of it
)

// Purge takes the answers that the cache holds for a key out, and says how many there were.
func (p *Pipeline) Purge(key hottype.Key) int { return p.layer.Cache().Purge(key) }

// Run finds what is hot until ctx ends, and returns after the last count was sent.
//
// When ctx ends, requests may still come in while the servers shut down: Run goes on
// until none has come for 100 ms, for at most 5 s. It returns within 10 s, with nil
// unless a part failed or did not end in time. What is counted later goes nowhere:
// to lose nothing for certain, end ctx after http.Server.Shutdown has returned.
func (p *Pipeline) Run(ctx context.Context) error {
	if p.ran.Swap(true) {
		return errors.New("hotparam: Run was called before")
	}
	defer logbound.Start(p.options.Log)()
	err := p.parts.Run(ctx, stopTimeout, slog.New(slog.DiscardHandler))
	if p.close != nil {
		err = errors.Join(err, p.close())
	}
	if err != nil {
		return fmt.Errorf("hotparam: run: %w", err)
	}
	return nil
}

// drain is the part that stops first: it waits for ctx, and then until no
// request comes any more.
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

func (p *Pipeline) distribute(cfg Config, parts pipeline.Config) error {
	store, err := redisclient.Open(redisclient.Config{OptionsFrom: cfg.Redis, Namespace: parts.Rules.Namespace,
		Budget: cfg.Budget, Log: cfg.Log})
	if err != nil {
		return fmt.Errorf("config.Redis: %w", err)
	}
	sink := cfg.Sink
	if cfg.StatsD != "" {
		if sink, err = newStatsD(cfg); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	if d, ok := sink.(interface{ Delivered() (sent, lost uint64) }); ok {
		p.delivered = d.Delivered
	}
	p.close = store.Close
	p.parts = pipeline.Distributed(parts, pipeline.Shared{Store: store, Sink: sink})
	return nil
}

type statsdSink struct{ *statsd.Sender }

func newStatsD(cfg Config) (Sink, error) {
	sender, err := statsd.NewSender(statsd.SenderConfig{
		Servers: strings.Split(cfg.StatsD, ","), Names: canon.Names{Prefix: "hotparam", Style: canon.StyleHP1},
		Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("StatsD %q: %w", cfg.StatsD, err)
	}
	return statsdSink{sender}, nil
}

// Delivered are the requests that are with the kernel, and that were lost.
func (s statsdSink) Delivered() (sent, lost uint64) {
	st := s.Stats()
	return st.Sent, st.Dropped + st.Invalid
}

// Stats tell what a Pipeline has done since it was built. Counters only grow.
type Stats struct {
	// Counted are requests, once for each key that they have. Delivered of them
	// reached the detection of this process, were sent by StatsD, or were taken by the
	// Sink. Dropped were lost: more keys than memory is for, or no server took
	// them. The rest waits for the next 100 ms; after Run's end it is lost too.
	Counted, Delivered, Dropped uint64
	// Allowed requests passed; Denied were refused, by what refused them.
	Allowed uint64
	Denied  hottype.Denials
	// Panics are requests that passed because judging them panicked.
	Panics uint64
	// Cache is the response cache of all middleware.
	Cache CacheStats
	// Hot are the keys that are hot now, heaviest first.
	Hot []HotKey
	// Upstreams are those that adaptive limits follow, with their limits as far as they are known.
	Upstreams []hottype.UpstreamLimit
}

// CacheStats are the counters of the response cache. Bytes and Entries are of now.
type CacheStats struct {
	// Hits are requests answered with a fresh answer, Stale with one that was not.
	Hits, Stale uint64
	// Fetched are requests to the handler that the cache made, Failed those of them that it
	// did not answer well. FetchDenied are those that the limits of their keys denied.
	Fetched, Failed, FetchDenied uint64
	// Collapsed are waits for the answer to another request, and TimedOut the requests
	// refused because that took too long and nothing stale was left.
	Collapsed, TimedOut uint64
	// Bypassed are requests that passed by the cache, NotStored responses that were not stored, by
	// why.
	Bypassed, NotStored map[string]uint64
	// Evicted are entries that others took the place of, Purged those that Purge took out.
	Evicted, Purged uint64
	Entries         uint64
	Bytes           int64
}

// Stats reads the counters. It is made for once a second, not for each request.
func (p *Pipeline) Stats() Stats {
	counted, decided := p.parts.Tally.Stats(), p.parts.Gate.Stats()
	st := Stats{
		Counted: counted.Added, Delivered: counted.Flushed, Dropped: counted.DroppedFull + counted.DroppedSink,
		Allowed: decided.Allowed.Total(), Denied: decided.Denied,
		Panics:    p.layer.Panics() + p.decide.Panics() + p.leaseGate.Panics(),
		Cache:     CacheStats(p.layer.Cache().Stats()),
		Upstreams: p.parts.Bounds(),
	}
	p.mu.Lock()
	for _, l := range p.layers {
		st.Panics += l.Panics()
	}
	p.mu.Unlock()
	if p.delivered != nil {
		sent, lost := p.delivered()
		st.Delivered, st.Dropped = sent, st.Dropped+lost
	}
	for _, e := range p.parts.Hot.Entries(time.Now()) {
		st.Hot = append(st.Hot, e.Hot())
	}
	return st
}
