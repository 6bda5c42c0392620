// Package serve is the command serve: the whole pipeline in one process, in front of the reader's own site. It reads
// the flags, starts [program.Local] by them, and learns from the traffic if the flags ask for it. The caller passes the
// parts that need a client of a server, so that cmd/serve compiles without them.
package serve

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/program"
)

// Command holds the flags of cmd/serve and of hotparam serve.
type Command struct {
	Upstream string `placeholder:"URL" help:"Short for --proxy.upstream."`
	Listen   string `placeholder:"HOST:PORT" help:"Short for --proxy.listen (default: 127.0.0.1:8080)."`
	// Learn is nil if the flag is not set, because 0s is an error.
	Learn    *time.Duration `placeholder:"DURATION" help:"Watch the traffic for this time (10m, up to 24h), then write a configuration that fits it. The configuration in force stays."`
	LearnOut string         `placeholder:"FILE" help:"File that --learn writes (default: hotparam.learned.yaml in --state.dir). An existing file is not changed."`
	config.Serve
}

// RunTo serves until ctx ends, and prints on out the configuration that it has learned. The flags set opts.Learn.
func (c Command) RunTo(ctx context.Context, out io.Writer, opts program.LocalOptions) error {
	cfg := c.Serve
	cfg.Proxy.Upstream = cmp.Or(c.Upstream, cfg.Proxy.Upstream)
	cfg.Proxy.Listen = cmp.Or(c.Listen, cfg.Proxy.Listen, "127.0.0.1:8080")
	if c.Learn != nil {
		learning := Learning{For: *c.Learn, Out: c.LearnOut, Output: out}
		opts.Learn = learning.Open
	} else if c.LearnOut != "" {
		return config.Usage("--learn-out %s needs --learn, the time to watch before it is written", c.LearnOut)
	}
	local, err := program.OpenLocal(ctx, cfg, opts)
	if err != nil {
		return err
	}
	opts.Log.Info("serving", append(local.Attrs(), "rules", len(local.Rules().Rules), "state", cfg.State.Dir)...)
	return local.Run(ctx)
}
