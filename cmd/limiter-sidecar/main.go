// Command limiter-sidecar is one program of the pipeline; see docs/ARCHITECTURE.md
// for its drawing and limiter-sidecar --help for its settings.
package main

import (
	"os"

	"github.com/hotparam/pipeline/cmd/internal/config"
	"github.com/hotparam/pipeline/cmd/internal/run"
	"github.com/hotparam/pipeline/hotparam/rules"
)

func main() {
	var cfg config.Sidecar
	os.Exit(config.Main(&cfg, "limiter-sidecar", "Answers gateways and applications: allow or deny. Also a reverse proxy.", func(set *rules.Set) error {
		ctx, stop := run.Context()
		defer stop()
		return run.Sidecar(ctx, cfg, set, config.Version())
	}))
}
