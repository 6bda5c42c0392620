// Command collector is one program of the pipeline. See docs/architecture.md for its drawing and collector --help for
// its settings.
package main

import (
	"os"

	"github.com/hotparam/pipeline/internal/app/fleet"
	"github.com/hotparam/pipeline/internal/app/program"
)

func main() {
	os.Exit(program.Main("collector",
		"Takes StatsD lines, mirrored requests and access logs, and sends counts on to Kafka or StatsD.",
		fleet.Collector))
}
