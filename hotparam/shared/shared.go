// Package shared joins a hotparam.Pipeline with others: counts go to aggregators, hot keys and overrides come back by
// Redis, and limits apply to all processes together. It is a package of its own so that a service alone links neither
// go-redis nor a StatsD client.
//
//	p, err := hotparam.New(hotparam.Config{
//		Rules:  rules,
//		Shared: shared.Config{Redis: rdb, StatsD: "127.0.0.1:8127"},
//	})
package shared

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/pipeline/distributed"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/transport/statsd"
	"github.com/hotparam/pipeline/internal/wait"
)

// Config holds the connections of a pipeline to others. Redis is needed, and either StatsD or Sink.
type Config struct {
	// Redis is the client of the server from which hot keys and overrides are read and in which shared limits are kept.
	// It is a *redis.Client, also of Sentinel, or a *redis.ClusterClient.
	//
	// The client is neither used nor changed nor closed: its options (addresses, credentials, TLS, dialer) are copied
	// to connections of the pipeline's own, which are made for short calls without retries. Keep it open while Run
	// runs.
	Redis redis.UniversalClient
	// StatsD is the address of the aggregator that receives this process's counts, "host:port" or "unix:/path". Several
	// aggregators that share the counts are separated by commas.
	StatsD string
	// Sink receives the counts in place of StatsD; package kafkasink has a Sink for Kafka.
	Sink hotparam.Sink
}

// StoreName returns "Redis".
func (c Config) StoreName() string { return "Redis" }

func init() { // hotparam.New joins pipelines by it
	pipeline.ConnectShared = func(config any, parts pipeline.Config) (*pipeline.Connected, error) {
		switch c := config.(type) {
		case Config:
			return c.connect(parts)
		case *Config:
			if c != nil {
				return c.connect(parts)
			}
		}
		return nil, fmt.Errorf("Config.Shared is a %T, or nil; use a shared.Config", config)
	}
}

// connect builds the parts of a pipeline, joined with other processes by Redis.
func (c *Config) connect(parts pipeline.Config) (*pipeline.Connected, error) {
	switch {
	case c.StatsD != "" && c.Sink != nil:
		return nil, errors.New("shared: StatsD and Sink are both set: set one of them")
	case c.StatsD == "" && c.Sink == nil:
		return nil, errors.New("shared: Redis requires StatsD or Sink, by which counts reach an aggregator")
	case isNilPointer(c.Sink):
		return nil, fmt.Errorf("shared: Sink is a nil %T: check the error of the function that makes it", c.Sink)
	case c.Redis == nil:
		return nil, errors.New("shared: StatsD and Sink require Redis, from which the hot set is read")
	case !conf.ValidID(parts.Gate.Instance): // Redis would have no report of this limiter
		return nil, fmt.Errorf("shared: hotparam.Config.Instance %q must be 1 to 128 printable bytes without spaces",
			parts.Gate.Instance)
	}
	store, err := redisclient.Open(redisclient.Config{OptionsFrom: c.Redis, Namespace: parts.Rules.Namespace,
		Budget: parts.Gate.Budget, Log: parts.Gate.Log})
	if err != nil {
		return nil, fmt.Errorf("shared: Redis: %w", err)
	}
	with, counts := distributed.Shared{Store: store, Sink: c.Sink}, sinkCounts(c.Sink)
	var sender *statsd.Sender
	var stood wait.Standstill
	if c.StatsD != "" {
		sender, err = statsd.NewSender(statsd.SenderConfig{
			Servers: strings.Split(c.StatsD, ","), Names: canon.Names{Prefix: "hotparam", Style: canon.StyleHP1},
			Standstill: &stood, Log: parts.Gate.Log,
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("shared: StatsD %q: %w", c.StatsD, err), store.Close())
		}
		with.Sink, counts = sender, senderCounts(sender)
		with.Arrivals = &rediscontrol.Arrivals{FlowIDs: sender.FlowIDs,
			Observe: func(r arrival.Report) { sender.Observe(r) }}
	}
	p := distributed.New(parts, with)
	if sender != nil {
		p.Add(lifecycle.Sinks, "standstill", stood.Run)
	}
	p.AddStats(pipeline.PartStats(sender, sender.Stats)...)
	return &pipeline.Connected{Pipeline: p.Pipeline, Overrides: p.Feed.Overrides(), Reports: p.Feed.ReadReports,
		Counts: counts, Close: store.Close, Store: c.StoreName()}, nil
}

// isNilPointer reports whether a Sink holds a nil pointer, such as the result of a failed kafkasink.New.
func isNilPointer(s hotparam.Sink) bool {
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func senderCounts(s *statsd.Sender) func() pipeline.Counts {
	return func() pipeline.Counts {
		st := s.Stats()
		return pipeline.Counts{Sent: st.Sent, Lost: st.Dropped + st.Invalid, Down: st.Down, Loss: st.Loss}
	}
}

// sinkCounts returns the counts of a Sink that knows them, or nil if every count that it accepted has arrived.
func sinkCounts(s hotparam.Sink) func() pipeline.Counts {
	d, ok := s.(interface{ Delivered() (sent, lost uint64) })
	if !ok {
		return nil
	}
	down, _ := s.(interface{ Down() bool })
	return func() pipeline.Counts {
		sent, lost := d.Delivered()
		return pipeline.Counts{Sent: sent, Lost: lost, Down: down != nil && down.Down(), Loss: -1}
	}
}
