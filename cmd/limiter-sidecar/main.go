// Command limiter-sidecar is one program of the pipeline. See docs/architecture.md for its drawing and limiter-sidecar
// --help for its settings.
package main

import (
	"os"

	"github.com/hotparam/pipeline/internal/app/fleet"
	"github.com/hotparam/pipeline/internal/app/program"
)

func main() {
	os.Exit(program.Main("limiter-sidecar",
		"Answers gateways and applications: allow or deny. Also a reverse proxy.", fleet.Sidecar))
}
