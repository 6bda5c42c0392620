// Command aggregator is one program of the pipeline; see docs/architecture.md
// for its drawing and aggregator --help for its settings.
package main

import (
	"os"

	"github.com/hotparam/pipeline/internal/app/run"
)

func main() {
	os.Exit(run.Main("aggregator",
		"Finds the hot keys in counts from StatsD or Kafka and publishes them to Redis.", run.Aggregator))
}
