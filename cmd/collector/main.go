// Command collector is one program of the pipeline; see docs/ARCHITECTURE.md
// for its drawing and collector --help for its settings.
package main

import (
	"os"

	"github.com/hotparam/pipeline/cmd/internal/config"
	"github.com/hotparam/pipeline/cmd/internal/run"
	"github.com/hotparam/pipeline/hotparam/rules"
)

func main() {
	var cfg config.Collector
	os.Exit(config.Main(&cfg, "collector", "Takes StatsD lines, mirrored requests and access logs, and sends counts on to Kafka or StatsD.", func(set *rules.Set) error {
		ctx, stop := run.Context()
		defer stop()
		return run.Collector(ctx, cfg, set, config.Version())
	}))
}
