package run

import (
	"log/slog"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisstore"
	"github.com/hotparam/pipeline/internal/transport/graphite"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// KafkaConfig is how the programs reach Kafka, for a look that logs nothing.
func KafkaConfig(k config.Kafka, group, namespace string) kafka.Config {
	cfg := kafkaConfig(k, namespace, slog.New(slog.DiscardHandler))
	cfg.Group = group
	return cfg
}

// OpenRedis makes a client as the programs do, for a look that logs nothing.
func OpenRedis(r config.Redis, namespace string) (*redisstore.Client, error) {
	return openRedis(r, namespace, 0, slog.New(slog.DiscardHandler))
}

// NewPoller makes a poller as the aggregator does, for a look that hands over
// nothing and logs nothing.
func NewPoller(g config.Graphite, n config.Names, set *rules.Set) (*graphite.Poller, error) {
	return newPoller(g, n, set, func([]hottype.Count) {}, slog.New(slog.DiscardHandler))
}
