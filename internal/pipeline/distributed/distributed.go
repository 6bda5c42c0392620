// Package distributed wires one of many processes, which share hot keys, overrides and limits by Redis.
//
//	gate ──> tally ──> sink ──> (aggregators) ──> Redis ──> hot set in memory ──> gate
//	 └── shared limits in Redis, in this process while Redis does not answer
package distributed

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
)

// Pipeline is a pipeline with its shared parts.
type Pipeline struct {
	*pipeline.Pipeline

	Feed    *rediscontrol.Feed
	Windows *redislimits.Windows
}

// Shared holds the parts by which a process is connected with other processes.
type Shared struct {
	Store *redisclient.Client
	// Sink takes the counts to the aggregators, or is nil if this process does not count. A sink with a method Run is
	// run until all counts are sent.
	Sink tally.Sink
	// Arrivals are the senders of Sink, which learn which of its counts arrived, or nil.
	Arrivals *rediscontrol.Arrivals
	// NoInputTTL is the NoInputTTL of hotset.Replica.
	NoInputTTL time.Duration
	// Copy keeps the overrides for a start without the store, or is nil if they are not kept.
	Copy rediscontrol.Copy
}

// New wires one of many processes, which share hot keys and limits by a store.
func New(c pipeline.Config, s Shared) *Pipeline {
	c.Now = s.Store.Config().Now
	p := &Pipeline{Pipeline: &pipeline.Pipeline{Hot: &hotset.Replica{NoInputTTL: s.NoInputTTL}}}
	// The reporter is asked how many limiters are alive before it reports for the first time, and reports the decisions
	// of the gate, which is built after it.
	p.Feed = rediscontrol.New(s.Store)
	if s.Arrivals != nil {
		p.Feed.ObserveArrivals(*s.Arrivals)
	}
	if s.Copy != nil {
		c.Gate.Overrides = p.Feed.Overrides().LoadCopy(s.Copy)
		p.Add(lifecycle.Sinks, "copy of overrides",
			func(ctx context.Context) error { return p.Feed.Overrides().KeepCopy(ctx, s.Copy) })
	}
	reports := p.Feed.Reporter(p.Report)
	limits := redislimits.New(s.Store)
	settlements := limits.Settlements()
	p.Windows = limits.Windows()
	c.Gate.Shared, c.Gate.Async, c.Gate.Limiters = limits, p.Windows, reports.Live
	c.Gate.Slots, c.Gate.Settlements = limits, settlements
	p.Add(lifecycle.Buffers, "settlements", settlements.Run)
	p.Wire(c, s.Sink)
	p.KeepSecrets(p.Feed)
	p.Add(lifecycle.Buffers, "windows", p.Windows.Run)
	if r, ok := s.Sink.(interface{ Run(context.Context) error }); ok {
		p.Add(lifecycle.Sinks, "sink", r.Run)
	}
	p.Add(lifecycle.Sinks, "hot set", func(ctx context.Context) error { return p.Feed.FollowInto(ctx, p.Hot) })
	p.Add(lifecycle.Sinks, "overrides", func(ctx context.Context) error {
		return p.Feed.Overrides().Follow(ctx, p.SetOverrides)
	})
	p.Add(lifecycle.Sinks, "commands", func(ctx context.Context) error {
		return p.Feed.FollowCommands(ctx, func(cmd report.Command) { p.Execute(c.Now(), cmd) })
	})
	p.Add(lifecycle.Sinks, "reports", reports.Run)
	p.Add(lifecycle.Sinks, "bounds", func(ctx context.Context) error {
		return p.Feed.FollowBounds(ctx, p.Adapts, func(list []hottype.UpstreamLimit) {
			p.Gate.Upstreams().SetBounds(c.Now(), list)
		})
	})
	p.Send = func(ctx context.Context, c report.Command) error {
		return SendCommand(ctx, p.Feed, limits, p.Gate.Rules(), c)
	}
	p.AddStats(func() any { return p.Feed.Stats() }, func() any { return limits.Stats() },
		func() any { return p.Windows.Stats() }, func() any { return settlements.Stats() })
	return p
}

// SendCommand makes all processes that share a store execute a command. Charges that the store itself holds are dropped
// here, once, before they can be read again.
func SendCommand(ctx context.Context, feed *rediscontrol.Feed, limits *redislimits.Limiter, set *rules.Set,
	c report.Command) error {
	if c.Action == report.CommandReset {
		if err := limits.ResetAll(ctx, gate.CountedSubjects(set, c)); err != nil {
			return err
		}
	}
	return feed.SendCommand(ctx, c)
}
