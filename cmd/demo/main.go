// Command demo shows the pipeline alive, as hotparam demo does: a site, its readers, a topic that goes viral, the
// dashboard. It compiles only what runs in one process, so that the first look at the project takes a minute.
package main

import (
	"context"
	"os"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/demo"
	"github.com/hotparam/pipeline/internal/app/program"
)

func main() {
	os.Exit(program.Main("demo", "Shows the pipeline alive: a site, its readers, a viral topic, the dashboard.",
		func(ctx context.Context, c demo.Command, _ *config.Parser, _ string) error {
			log := program.Logger(config.Log{Level: "warn", Format: "text"})
			return c.RunTo(ctx, os.Stdout, "go run ./cmd/serve", log)
		}))
}
