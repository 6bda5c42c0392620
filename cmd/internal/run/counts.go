package run

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/hotparam/pipeline/cmd/internal/config"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/canon"
	"github.com/hotparam/pipeline/hotparam/kafka"
	"github.com/hotparam/pipeline/hotparam/statsd"
	"github.com/hotparam/pipeline/hotparam/tally"
)

// sink is where counts leave a process.
type sink struct {
	tally.Sink
	name  string // "kafka" or "statsd"
	run   func(context.Context) error
	stats func() any
}

// metricNames are the names that StatsD speaks.
func metricNames(cfg config.Names) (canon.Names, error) {
	names := canon.Names{Prefix: cfg.Prefix, Style: canon.Style(cfg.Style)}
	if err := names.Validate(); err != nil {
		return names, fmt.Errorf("%w (--names.prefix, --names.style)", err)
	}
	return names, nil
}

// choose resolves a setting auto|kafka|statsd: auto takes the one that is
// configured, and there must be just one.
func choose(setting, flag string, haveKafka, haveStatsD bool) (string, error) {
	switch {
	case setting != "auto":
		if !haveKafka && (setting == "kafka" || setting == "both") {
			return "", fmt.Errorf("%w: --%s=%s needs --kafka.brokers", config.ErrUsage, flag, setting)
		}
		if !haveStatsD && (setting == "statsd" || setting == "both") {
			return "", fmt.Errorf("%w: --%s=%s needs --statsd.addr", config.ErrUsage, flag, setting)
		}
		return setting, nil
	case haveKafka && haveStatsD:
		return "", fmt.Errorf("%w: --kafka.brokers and --statsd.addr are both set: say which one takes the counts with --%s", config.ErrUsage, flag)
	case haveKafka:
		return "kafka", nil
	case haveStatsD:
		return "statsd", nil
	}
	return "none", nil
}

// newSink builds the way out of counts.
func newSink(kind string, c config.Counts, namespace string, log *slog.Logger) (*sink, error) {
	if kind == "kafka" {
		p, err := kafka.NewProducer(kafka.ProducerConfig{Config: kafkaConfig(c.Kafka, namespace, log)})
		if err != nil {
			return nil, err
		}
		return &sink{p, kind, p.Run, func() any { return p.Stats() }}, nil
	}
	names, err := metricNames(c.Names)
	if err != nil {
		return nil, err
	}
	out, err := statsd.NewSender(statsd.SenderConfig{Address: c.StatsD.Addr, MTU: c.StatsD.MTU, Names: names, Log: log})
	if err != nil {
		return nil, err
	}
	return &sink{out, kind, func(ctx context.Context) error {
		<-ctx.Done()
		return out.Close()
	}, func() any { return out.Stats() }}, nil
}

// tee sends counts to the sink that heat is judged by, and then to one that
// keeps their history.
type tee struct{ judge, history tally.Sink }

// Send fails only when the first one does. What the history loses it counts
// itself: nobody waits for it, and nothing is sent twice because of it.
func (t tee) Send(ctx context.Context, counts []hotparam.Count) error {
	copied := slices.Clone(counts) // the first one keeps what it is given
	if err := t.judge.Send(ctx, counts); err != nil {
		return err
	}
	_ = t.history.Send(ctx, copied)
	return nil
}

func kafkaConfig(k config.Kafka, namespace string, log *slog.Logger) kafka.Config {
	return kafka.Config{
		Brokers: k.Brokers, Topic: k.Topic, Group: k.Group, Namespace: namespace, CreateTopic: k.Create, Partitions: k.Partitions,
		TLS: k.TLS, Username: k.Username, Password: k.Password, Log: log,
	}
}

// newListener takes StatsD counts in and hands them on.
func newListener(in config.StatsDIn, n config.Names, handle func([]hotparam.Count), log *slog.Logger) (*statsd.Listener, error) {
	names, err := metricNames(n)
	if err != nil {
		return nil, err
	}
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Address: in.Listen, Names: names, ReadBuffer: in.ReadBuffer, Handle: handle, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address with --statsd.listen", err)
	}
	return l, nil
}
