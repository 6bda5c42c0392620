// Package pipeline wires the parts that count and decide in one process, which also finds the hot keys.
//
//	gate ──> tally ──> aggregate ──> hot set in memory ──> gate
//
// Package distributed wires the same parts together with others, by Redis, so that a stand-alone process does not link
// a Redis client. Package hotparam runs a pipeline in a service; package program runs one in serve and the sidecar,
// with listeners and an admin page around it. The package starts no goroutine before Run, and does not close the parts
// that it receives.
package pipeline

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/requestlog"
	"github.com/hotparam/pipeline/internal/serving/respcache"
	"github.com/hotparam/pipeline/internal/transport/reversedns"
)

// Pipeline holds the parts that decide, and the parts that feed them. They are in the embedded Stages, to which a
// program adds its own parts before it calls Run.
type Pipeline struct {
	lifecycle.Stages

	Gate      *gate.Gate
	Crawlers  *reversedns.Verifier
	Passes    *visitorpass.Passes // of the gate
	Hot       *hotset.Replica
	Tally     *tally.Tally          // nil if others count
	Aggregate *aggregate.Aggregator // nil if others find hot keys
	// Send makes all processes that share a store, including this one, execute a command, or is nil for a single
	// process.
	Send func(context.Context, report.Command) error
	// Overrides, when set before Run, receives the live overrides after each change.
	Overrides func(rules.LiveOverrides)
	// Reported, when set before Run, completes each report of this limiter.
	Reported func(*report.Limiter)
	cache    *respcache.Cache // nil without a cache
	bases    BaseStore        // nil if nothing outlives the process
	now      func() time.Time
	log      *slog.Logger
	more     []func() any
}

// Config has the settings of the parts. The connections between them are filled in.
type Config struct {
	Rules *rules.Set
	Gate  gate.Config
	Tally tally.Config
	// Denials is the log of denials, or nil if there is none.
	Denials *requestlog.Denials
	Now     func() time.Time // the clock of this process; default time.Now
}

// Connected is a pipeline that was connected with other processes, with the functions of the connection.
type Connected struct {
	*Pipeline
	// Overrides are the live overrides of all, and Reports returns the reports of all limiters.
	Overrides rules.OverrideStore
	Reports   func(context.Context) ([]report.Limiter, error)
	// Counts returns the results of sending the tally's counts, or is nil if they always arrive.
	Counts func() Counts
	Close  func() error // after Run
	// Store is the name of the store of reports and overrides, such as "Redis", or "" for memory or a disk.
	Store string
}

// Counts holds the results of sending counts: the sent and lost requests, whether they cannot be sent now, and the
// share that does not arrive, or -1 if it is unknown.
type Counts struct {
	Sent, Lost uint64
	Down       bool
	Loss       float64
}

// AddCache adds the response cache of this process, from which Command removes responses. Call it before Run.
func (p *Pipeline) AddCache(c *respcache.Cache) {
	p.cache = c
	p.Add(lifecycle.Buffers, "cache", c.Run)
}

// CheckRules reports whether detection with these settings keeps its guarantees for the rules.
func CheckRules(set *rules.Set, c aggregate.Config) error {
	return detect.Check(set, detect.Options{Counters: c.Counters, MaxRate: c.MaxRate, Lateness: c.Lateness})
}

// InProcess wires one process, which finds hot keys by its own counts.
func InProcess(c Config, found aggregate.Config) (*Pipeline, error) {
	if err := CheckRules(c.Rules, found); err != nil {
		return nil, err
	}
	p := &Pipeline{Hot: new(hotset.Replica)}
	found.Rules, found.Publish, found.Shards = c.Rules, hotset.NewLocalPublisher(p.Hot, "local"), runtime.GOMAXPROCS(0)
	p.Aggregate = aggregate.New(found)
	p.Wire(c, p.Aggregate)
	p.Add(lifecycle.Sinks, "aggregate", p.Aggregate.Run)
	p.Add(lifecycle.Sinks, "upstreams", p.runControllers)
	return p, nil
}

// Report returns the report of this limiter.
func (p *Pipeline) Report(now time.Time) report.Limiter {
	r := p.Gate.Report(now)
	r.Upstreams = p.Gate.Upstreams().Reports(now)
	if p.Reported != nil {
		p.Reported(&r)
	}
	return r
}

// Wire builds the gate from c and the fields of p, and the tally of sink, unless sink is nil because this process does
// not count.
func (p *Pipeline) Wire(c Config, sink tally.Sink) {
	if p.now = c.Now; p.now == nil {
		p.now = time.Now
	}
	p.log = cmp.Or(c.Gate.Log, slog.New(slog.DiscardHandler))
	c.Gate.Rules, c.Gate.Hot = c.Rules, p.Hot
	if sink != nil {
		c.Tally.Sink = sink
		p.Tally = tally.New(c.Tally)
		c.Gate.Counter = p.Tally
		p.Add(lifecycle.Buffers, "tally", p.Tally.Run)
	}
	p.Crawlers = reversedns.New(nil, c.Gate.Log)
	p.Add(lifecycle.Sinks, "crawlers", p.Crawlers.Run)
	c.Gate.Verifier = p.Crawlers
	p.Passes = visitorpass.New(c.Rules.Namespace)
	c.Gate.Passes = p.Passes
	if c.Denials != nil {
		c.Gate.OnDenial = c.Denials.Record
		p.Add(lifecycle.Sinks, "denials", c.Denials.Run)
		p.AddStats(func() any { return c.Denials.Stats() })
	}
	p.Gate = gate.New(c.Gate)
}

// Stats returns functions that read the statistics of each part, whose fields package metrics shows by their tags.
func (p *Pipeline) Stats() []func() any {
	all := []func() any{
		func() any { return p.Gate.Stats() }, func() any { return p.Hot.Stats(p.now()) },
		func() any { return p.Crawlers.Stats() }, func() any { return p.Bounds() },
	}
	all = append(all, PartStats(p.Tally, p.Tally.Stats)...)
	all = append(all, PartStats(p.Aggregate, p.Aggregate.Stats)...)
	return append(all, p.more...)
}

// AddStats adds the statistics of further parts. Call it before Run.
func (p *Pipeline) AddStats(parts ...func() any) { p.more = append(p.more, parts...) }

// PartStats returns a function that reads the statistics of a part, or nil if the part is nil.
func PartStats[T, S any](part *T, stats func() S) []func() any {
	if part == nil {
		return nil
	}
	return []func() any{func() any { return stats() }}
}

// SetRules replaces the rules.
func (p *Pipeline) SetRules(set *rules.Set) {
	p.Gate.SetRules(set)
	if p.Aggregate != nil {
		p.Aggregate.SetRules(set)
	}
}

// SetOverrides replaces the live overrides.
func (p *Pipeline) SetOverrides(live rules.LiveOverrides) {
	p.Gate.SetLive(live)
	if p.Overrides != nil {
		p.Overrides(live)
	}
}

// Command executes a command in this process and, if processes share a store, in all of them a moment later. It returns
// the number of responses that were removed here.
func (p *Pipeline) Command(ctx context.Context, c report.Command) (purged int, err error) {
	if p.Send == nil {
		return p.Execute(p.now(), c), nil
	}
	if c.Action == report.CommandPurge { // executing it twice is harmless, and returns the number
		purged = p.Execute(p.now(), c)
	}
	return purged, p.Send(ctx, c)
}

// Execute executes a command in this process alone.
func (p *Pipeline) Execute(now time.Time, c report.Command) (purged int) {
	switch c.Action {
	case report.CommandReset:
		p.Gate.Reset(now, c)
	case report.CommandTrace:
		p.Gate.Trace(now, c.Client)
	case report.CommandPurge:
		if p.cache != nil {
			return p.cache.Purge(c.Key)
		}
	}
	return 0
}

// Adapts reports whether a rule has an adaptive limit.
func (p *Pipeline) Adapts() bool { return len(p.Gate.Rules().AdaptiveUpstreams()) > 0 }

// Bounds returns the limits of adaptive upstreams that apply in this process.
func (p *Pipeline) Bounds() []hottype.UpstreamLimit { return p.Gate.Upstreams().Bounds(p.now()) }
