// Command aggregator is one program of the pipeline. See docs/architecture.md for its drawing and aggregator --help for
// its settings.
package main

import (
	"os"

	"github.com/hotparam/pipeline/internal/app/fleet"
	"github.com/hotparam/pipeline/internal/app/program"
)

func main() {
	os.Exit(program.Main("aggregator",
		"Finds the hot keys in counts from StatsD or Kafka and publishes them to Redis.", fleet.Aggregator))
}
