package main

import (
	"context"
	"io"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/demo"
	"github.com/hotparam/pipeline/internal/app/fleet"
	"github.com/hotparam/pipeline/internal/app/program"
	"github.com/hotparam/pipeline/internal/app/serve"
)

type serveCmd struct{ serve.Command }

func (c *serveCmd) Run(ctx context.Context, p *config.Parser, k *kong.Kong) error {
	return c.RunTo(ctx, k.Stdout, program.LocalOptions{Version: config.Version(), Log: fleet.Logger(c.Log), File: p,
		Extras: fleet.Extras})
}

type demoCmd struct{ demo.Command }

func (c *demoCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.RunTo(ctx, k.Stdout, name+" serve", fleet.Logger(config.Log{Level: "warn", Format: "text"}))
}

type loadCmd struct {
	outputFlags
	Target   []string      `required:"" placeholder:"URL" help:"Site to visit, as http://host:port; several are visited in turn. Send load only to sites of your own."`
	Duration time.Duration `default:"60s" help:"Duration of the load."`
	Topics   int           `default:"3000" help:"Topics of the site."`
}

func (c *loadCmd) Run(ctx context.Context, k *kong.Kong) error {
	if c.Duration <= 0 {
		return config.Usage("--duration %v must be above 0", c.Duration)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Duration)
	defer cancel()
	lines := k.Stdout
	if c.IsValue() {
		lines = k.Stderr
	}
	sums, err := demo.Load(ctx, lines, c.Target, c.Topics)
	if err != nil {
		return err
	}
	return c.Print(k.Stdout, sums, func(io.Writer) error { return nil })
}
