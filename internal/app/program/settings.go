package program

import (
	"log/slog"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// Settings of programs, as the packages take them.

func tallyConfig(cfg config.Tally, log *slog.Logger) tally.Config {
	if cfg.TrackClients <= 0 {
		cfg.TrackClients = -1 // to the tally, 0 is its default
	}
	return tally.Config{Flush: cfg.Flush, MaxKeys: cfg.MaxKeys, TrackClients: cfg.TrackClients, Log: log}
}

func gateConfig(cfg config.Gate, log *slog.Logger) gate.Config {
	return gate.Config{
		Local:    limit.NewMemory(limit.MemoryConfig{MaxSubjects: cfg.MaxSubjects}),
		Instance: lifecycle.InstanceName(cfg.Instance), Log: log,
	}
}

// KafkaConfig is how the programs reach Kafka.
func KafkaConfig(k config.Kafka, namespace string, log *slog.Logger) kafka.Config {
	return kafka.Config{
		Brokers: k.Brokers, Topic: k.Topic, Namespace: namespace, CreateTopic: k.Create, Partitions: k.Partitions,
		TLS:   kafka.TLS{Enabled: k.TLS, CAFile: k.CA, CertFile: k.Cert, KeyFile: k.Key, ServerName: k.ServerName},
		Login: kafka.Login{Mechanism: k.SASL, Username: k.Username, Password: k.Password},
		Log:   log,
	}
}

func detectConfig(cfg config.Detect, log *slog.Logger) aggregate.Config {
	return aggregate.Config{
		Tick: cfg.Tick, HotTTL: cfg.HotTTL, Lateness: cfg.Lateness, Counters: cfg.Counters, MaxRate: cfg.MaxRate,
		Log: log,
	}
}

// checkCounters makes the check that there are counters for the rates that the rules,
// or the settings, say they expect.
func checkCounters(cfg config.Detect) func(*rules.Set) error {
	return func(set *rules.Set) error { return pipeline.CheckRules(set, detectConfig(cfg, nil)) }
}

// metricsOf are the metrics of the parts that a pipeline has.
func metricsOf(p *pipeline.Pipeline) []metrics.Collector {
	parts := []metrics.Collector{metrics.Of(p.Gate.Stats),
		metrics.Of(func() hotset.Stats { return p.Hot.Stats(time.Now()) }),
		metrics.Of(p.Crawlers.Stats),
		metrics.Of(p.Bounds)}
	if p.Tally != nil {
		parts = append(parts, metrics.Of(p.Tally.Stats))
	}
	if p.Aggregate != nil {
		parts = append(parts, metrics.Of(p.Aggregate.Stats))
	}
	if p.Feed != nil {
		parts = append(parts, metrics.Of(p.Feed.Stats), metrics.Of(p.Limits.Stats),
			metrics.Of(p.Windows.Stats))
	}
	if p.Refunds != nil {
		parts = append(parts, metrics.Of(p.Refunds.Stats))
	}
	if p.Prefetch != nil {
		parts = append(parts, metrics.Of(p.Prefetch.Stats))
	}
	return parts
}
