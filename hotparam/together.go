package hotparam

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisfeed"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
	"github.com/hotparam/pipeline/internal/storage/redisstore"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// together wires one of many processes:
//
//	gate ──> tally ──> StatsD or Sink ──> (aggregators) ──> Redis ──> hot set in memory ──> gate
//	 └── shared limits in Redis, in this process while Redis does not answer
func (p *Pipeline) together(cfg Config, set *rules.Set) error {
	client, err := redisstore.Open(redisstore.Config{Like: cfg.Redis, Namespace: set.Namespace, Budget: cfg.Budget, Log: cfg.Log})
	if err != nil {
		return fmt.Errorf("hotparam: Redis: %w", err)
	}
	p.close = client.Close
	sink := cfg.Sink
	if cfg.StatsD != "" {
		if sink, err = newStatsD(cfg); err != nil {
			return err
		}
	}
	if d, ok := sink.(interface{ Delivered() (sent, lost uint64) }); ok {
		p.delivered = d.Delivered
	}
	p.tally = tally.New(tally.Config{Sink: sink, Log: cfg.Log})
	feed, limits := redisfeed.New(client), redislimits.New(client)
	windows := limits.Windows(redislimits.WindowsConfig{})
	reports := feed.Reporter(func(now time.Time) hottype.Report { return p.gate.Report(now) })
	p.gate = gate.New(gate.Config{
		Rules: set, Hot: p.hot, Counter: p.tally, Shared: limits, Async: windows,
		Budget: cfg.Budget, Live: reports.Live, Instance: cfg.Instance, Log: cfg.Log,
	})
	p.stages.Add(lifecycle.Sums, "tally", p.tally.Run)
	p.stages.Add(lifecycle.Sums, "windows", windows.Run)
	if r, ok := sink.(interface{ Run(context.Context) error }); ok {
		p.stages.Add(lifecycle.Sinks, "sink", r.Run)
	}
	p.stages.Add(lifecycle.Sinks, "hot set", func(ctx context.Context) error { return feed.FollowInto(ctx, p.hot) })
	p.stages.Add(lifecycle.Sinks, "overrides", func(ctx context.Context) error {
		return feed.Overrides().Follow(ctx, p.gate.SetOverrides)
	})
	p.stages.Add(lifecycle.Sinks, "reports", reports.Run)
	return nil
}

// statsdSink is a sender of StatsD.
type statsdSink struct{ *statsd.Sender }

func newStatsD(cfg Config) (Sink, error) {
	sender, err := statsd.NewSender(statsd.SenderConfig{
		Servers: strings.Split(cfg.StatsD, ","), Names: canon.Names{Prefix: "hotparam", Style: canon.StyleHP1}, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("hotparam: StatsD %q: %w", cfg.StatsD, err)
	}
	return statsdSink{sender}, nil
}

// Delivered are the requests that are with the kernel, and that were lost.
func (s statsdSink) Delivered() (sent, lost uint64) {
	st := s.Stats()
	return st.Sent, st.Dropped + st.Invalid
}
