// Package pipeline wires the parts that count and decide in one process: alone, where it
// also finds what is hot, or together with others, by a shared store.
//
//	alone:     gate ──> tally ──> aggregate ──> hot set in memory ──> gate
//	together:  gate ──> tally ──> sink ──> (aggregators) ──> Redis ──> hot set in memory ──> gate
//	            └── shared limits in Redis, in this process while Redis does not answer
//
// Package hotparam runs one in a service, package run in serve and the sidecar, with
// listeners and an admin page around it. It starts nothing before Run, and closes
// nothing that it is given.
package pipeline

import (
	"context"
	"runtime"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/respcache"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
	"github.com/hotparam/pipeline/internal/transport/reversedns"
	"github.com/hotparam/pipeline/internal/wait"
)

// Pipeline is what decides, and what feeds it. Its parts are in the embedded Stages, to
// which a program adds its own before it calls Run.
type Pipeline struct {
	lifecycle.Stages

	Gate      *gate.Gate
	Crawlers  *reversedns.Verifier
	Hot       *hotset.Replica
	Tally     *tally.Tally          // nil: others count
	Aggregate *aggregate.Aggregator // nil: others find what is hot
	// What is shared; nil: alone.
	Feed     *rediscontrol.Feed
	Limits   *redislimits.Limiter
	Windows  *redislimits.Windows
	Refunds  *redislimits.Refunds
	Prefetch *redislimits.Prefetch // nil: none
	// Overrides, when set before Run, receives each list of live overrides.
	Overrides func([]rules.Override)
	// Reported, when set before Run, completes each report of this limiter.
	Reported func(*hottype.LimiterReport)
	cache    *respcache.Cache // nil: none
}

// Config has the settings of the parts. What connects them is filled in.
type Config struct {
	Rules *rules.Set
	Gate  gate.Config
	Tally tally.Config
}

// AddCache adds the response cache of this process, from which Command removes responses. Call it before Run.
func (p *Pipeline) AddCache(c *respcache.Cache) {
	p.cache = c
	p.Add(lifecycle.Buffers, "cache", c.Run)
}

// CheckRules reports whether detection by these settings holds its promise for rules.
func CheckRules(set *rules.Set, c aggregate.Config) error {
	return detect.Check(set, detect.Options{Counters: c.Counters, MaxRate: c.MaxRate, Lateness: c.Lateness})
}

// InProcess wires one process, which finds what is hot by what it counts itself.
func InProcess(c Config, found aggregate.Config) (*Pipeline, error) {
	if err := CheckRules(c.Rules, found); err != nil {
		return nil, err
	}
	p := &Pipeline{Hot: new(hotset.Replica)}
	found.Rules, found.Publish, found.Shards = c.Rules, hotset.NewLocalPublisher(p.Hot, "local"), runtime.GOMAXPROCS(0)
	p.Aggregate = aggregate.New(found)
	p.wire(c, p.Aggregate)
	p.Add(lifecycle.Sinks, "aggregate", p.Aggregate.Run)
	p.Add(lifecycle.Sinks, "upstreams", p.adapt)
	return p, nil
}

// Shared is what a process has from others.
type Shared struct {
	Store *redisclient.Client
	// Sink takes the counts to the aggregators; nil: this process does not count. One
	// that has Run is run until all counts are sent.
	Sink tally.Sink
	// TTLBlind is that of hotset.Replica.
	TTLBlind time.Duration
	// Prefetch is how many tokens of one key may be taken ahead; 0: none.
	Prefetch int64
	// Copy keeps the overrides for a start without the store; nil: nothing does.
	Copy rediscontrol.Copy
}

// Distributed wires one of many processes, which share hot keys and limits by a store.
func Distributed(c Config, s Shared) *Pipeline {
	p := &Pipeline{Hot: &hotset.Replica{TTLBlind: s.TTLBlind}}
	// The reporter is asked how many limiters are alive before it reports for the
	// first time, and reports what the gate, which is built after it, decided.
	p.Feed = rediscontrol.New(s.Store)
	if s.Copy != nil {
		c.Gate.Overrides = p.Feed.Overrides().LoadCopy(s.Copy)
		p.Add(lifecycle.Sinks, "copy of overrides",
			func(ctx context.Context) error { return p.Feed.Overrides().KeepCopy(ctx, s.Copy) })
	}
	reports := p.Feed.Reporter(p.report)
	p.Limits = redislimits.New(s.Store)
	p.Windows = p.Limits.Windows(redislimits.WindowsConfig{})
	c.Gate.Shared, c.Gate.Async, c.Gate.Limiters = p.Limits, p.Windows, reports.Live
	p.Refunds = p.Limits.Refunds()
	c.Gate.Slots, c.Gate.Refunds = p.Limits, p.Refunds
	p.Add(lifecycle.Buffers, "refunds", p.Refunds.Run)
	if s.Prefetch > 0 {
		p.Prefetch = p.Limits.Prefetch(s.Prefetch)
		c.Gate.Shared = p.Prefetch
		p.Add(lifecycle.Buffers, "prefetch", p.Prefetch.Run)
	}
	p.wire(c, s.Sink)
	p.Add(lifecycle.Buffers, "windows", p.Windows.Run)
	if r, ok := s.Sink.(interface{ Run(context.Context) error }); ok {
		p.Add(lifecycle.Sinks, "sink", r.Run)
	}
	p.Add(lifecycle.Sinks, "hot set", func(ctx context.Context) error { return p.Feed.FollowInto(ctx, p.Hot) })
	p.Add(lifecycle.Sinks, "overrides", func(ctx context.Context) error {
		return p.Feed.Overrides().Follow(ctx, p.SetOverrides)
	})
	p.Add(lifecycle.Sinks, "commands", func(ctx context.Context) error {
		return p.Feed.FollowCommands(ctx, func(c hottype.Command) { p.execute(time.Now(), c) })
	})
	p.Add(lifecycle.Sinks, "reports", reports.Run)
	p.Add(lifecycle.Sinks, "bounds", func(ctx context.Context) error {
		return p.Feed.FollowBounds(ctx, p.adapts, func(list []hottype.UpstreamLimit) {
			p.Gate.Upstreams().SetBounds(time.Now(), list)
		})
	})
	return p
}

func (p *Pipeline) report(now time.Time) hottype.LimiterReport {
	r := p.Gate.Report(now)
	r.Upstreams = p.Gate.Upstreams().Reports(now)
	if p.Reported != nil {
		p.Reported(&r)
	}
	return r
}

func (p *Pipeline) wire(c Config, sink tally.Sink) {
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
	p.Gate = gate.New(c.Gate)
}

// SetRules takes new rules.
func (p *Pipeline) SetRules(set *rules.Set) {
	p.Gate.SetRules(set)
	if p.Aggregate != nil {
		p.Aggregate.SetRules(set)
	}
}

// SetOverrides takes the live overrides, all of them.
func (p *Pipeline) SetOverrides(list []rules.Override) {
	p.Gate.SetOverrides(list)
	if p.Overrides != nil {
		p.Overrides(list)
	}
}

// Command carries out a command: in this process, and where processes share a store in
// all of them, a moment later. It says how many answers were removed here.
func (p *Pipeline) Command(ctx context.Context, c hottype.Command) (purged int, err error) {
	if p.Feed == nil {
		return p.execute(time.Now(), c), nil
	}
	if c.Action == hottype.CommandPurge { // doing it twice does no harm, and says how many
		purged = p.execute(time.Now(), c)
	}
	return purged, SendCommand(ctx, p.Feed, p.Limits, p.Gate.Rules(), c)
}

// SendCommand has all processes that share a store carry out a command. What the store itself
// counts is dropped here, once, before it can be read again.
func SendCommand(ctx context.Context, feed *rediscontrol.Feed, limits *redislimits.Limiter, set *rules.Set,
	c hottype.Command) error {
	if c.Action == hottype.CommandReset {
		if err := limits.ResetAll(ctx, gate.CountedSubjects(set, c)); err != nil {
			return err
		}
	}
	return feed.SendCommand(ctx, c)
}

func (p *Pipeline) execute(now time.Time, c hottype.Command) (purged int) {
	switch c.Action {
	case hottype.CommandReset:
		if p.Prefetch != nil {
			for _, charge := range gate.CountedSubjects(p.Gate.Rules(), c) {
				p.Prefetch.Reset(&charge.Subject)
			}
		}
		p.Gate.Reset(now, c)
	case hottype.CommandPurge:
		if p.cache != nil {
			return p.cache.Purge(c.Key)
		}
	}
	return 0
}

// adaptEvery is the interval of the controllers.
const adaptEvery = time.Second

// Adapt runs the controllers of adaptive limits until ctx ends: read returns what limiters report of
// their upstreams, and apply gets the limits that follow, nil while no rule adapts.
func Adapt(ctx context.Context, set func() *rules.Set, hot *hotset.Replica,
	read func(now time.Time) []hottype.LimiterReport, apply func(now time.Time, bounds []hottype.UpstreamLimit)) error {
	var controllers adaptive.Controllers
	wait.Every(ctx, adaptEvery, func() {
		now, set := time.Now(), set()
		var bounds []hottype.UpstreamLimit
		if len(set.AdaptiveUpstreams()) > 0 {
			bounds = controllers.Tick(now, set, hot.Hot(now), read(now))
		}
		apply(now, bounds)
	})
	return nil
}

// adapt limits by what this process alone sees.
func (p *Pipeline) adapt(ctx context.Context) error {
	upstreams := p.Gate.Upstreams()
	read := func(now time.Time) []hottype.LimiterReport {
		return []hottype.LimiterReport{{At: now, Upstreams: upstreams.Reports(now)}}
	}
	return Adapt(ctx, p.Gate.Rules, p.Hot, read, func(now time.Time, bounds []hottype.UpstreamLimit) {
		if p.adapts() {
			upstreams.SetBounds(now, bounds)
		}
	})
}

func (p *Pipeline) adapts() bool { return len(p.Gate.Rules().AdaptiveUpstreams()) > 0 }

// Bounds are what holds here of what upstreams bear.
func (p *Pipeline) Bounds() []hottype.UpstreamLimit { return p.Gate.Upstreams().Bounds(time.Now()) }
