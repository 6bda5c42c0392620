// Command serve puts the whole pipeline, in one process, in front of a site, as hotparam serve does. It compiles only
// what runs in one process, and rejects the settings that need a server.
package main

import (
	"context"
	"os"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/app/serve"
)

func main() {
	os.Exit(program.Main("serve", "Puts the whole pipeline, in one process, in front of a site of yours.",
		func(ctx context.Context, c serve.Command, p *config.Parser, version string) error {
			return c.RunTo(ctx, os.Stdout, program.LocalOptions{Version: version, Log: program.Logger(c.Log), File: p})
		}, config.OneProcess()))
}
