// Command aggregator is one program of the pipeline; see docs/ARCHITECTURE.md
// for its drawing and aggregator --help for its settings.
package main

import (
	"os"

	"github.com/hotparam/pipeline/cmd/internal/config"
	"github.com/hotparam/pipeline/cmd/internal/run"
	"github.com/hotparam/pipeline/hotparam/rules"
)

func main() {
	var cfg config.Aggregator
	os.Exit(config.Main(&cfg, "aggregator", "Finds the hot keys in counts from StatsD or Kafka and publishes them to Redis.", func(set *rules.Set) error {
		ctx, stop := run.Context()
		defer stop()
		return run.Aggregator(ctx, cfg, set, config.Version())
	}))
}
