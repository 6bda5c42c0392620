package hotparam

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// distribute connects the pipeline with others.
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

// statsdSink is a sender of StatsD.
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
