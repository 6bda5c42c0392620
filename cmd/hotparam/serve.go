package main

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/demo"
	"github.com/hotparam/pipeline/internal/app/program"
)

type serveCmd struct {
	Upstream string `placeholder:"URL" help:"Short for --proxy.upstream."`
	Listen   string `placeholder:"HOST:PORT" help:"Short for --proxy.listen (default: 127.0.0.1:8080)."`
	// Learn is nil if it is not set: 0s is an error.
	Learn    *time.Duration `placeholder:"10m" help:"Watch the traffic for so long, at most 24h, then write a configuration that is right for it. What is in force stays."`
	LearnOut string         `placeholder:"FILE" help:"Where --learn writes it (default: hotparam.learned.yaml in --state.dir). A file that is there stays as it is."`
	config.Serve
}

func (c *serveCmd) Run(ctx context.Context, p *config.Parser, k *kong.Kong) error {
	cfg := c.Serve
	cfg.Proxy.Upstream = cmp.Or(c.Upstream, cfg.Proxy.Upstream)
	cfg.Proxy.Listen = cmp.Or(c.Listen, cfg.Proxy.Listen, "127.0.0.1:8080")
	log := program.Logger(cfg.Log)
	opts := program.LocalOptions{Version: config.Version(), Log: log, File: p}
	if c.Learn != nil {
		opts.Learn = &program.Learning{For: *c.Learn, Out: c.LearnOut, Output: k.Stdout}
	} else if c.LearnOut != "" {
		return config.Usage("--learn-out %s: --learn says for how long to watch before it is written", c.LearnOut)
	}
	local, err := program.OpenLocal(ctx, cfg, opts)
	if err != nil {
		return err
	}
	log.Info("serving", append(local.Attrs(), "rules", len(local.Rules().Rules), "state", cfg.State.Dir)...)
	return local.Run(ctx)
}

type demoCmd struct {
	Duration    time.Duration `default:"40s" help:"How long; 0 goes on until Ctrl-C."`
	Topics      int           `default:"3000" help:"Topics of the site, 10 to 1000000."`
	Listen      string        `name:"proxy.listen" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of the proxy (default: a free port)."`
	Admin       string        `name:"admin.listen" placeholder:"HOST:PORT" help:"Address of the dashboard (default: 127.0.0.1:9180, or a free port while that is taken)."`
	Headless    bool          `help:"No dashboard and no colours."`
	JSON        string        `name:"json" placeholder:"FILE" help:"Also write the result as JSON."`
	PrintConfig bool          `help:"Print the rules of the demo as a file to begin with, and end."`
}

func (c *demoCmd) Run(ctx context.Context, k *kong.Kong) error {
	if c.PrintConfig {
		_, err := k.Stdout.Write(demo.Rules)
		return err
	}
	if c.Topics < 10 || c.Topics > 1_000_000 {
		return config.Usage("--topics %d: want 10 to 1000000", c.Topics)
	}
	if c.Duration < 0 || c.Duration > 0 && c.Duration < 10*time.Second {
		return config.Usage("--duration %v: want at least 10s, or 0 for no end", c.Duration)
	}
	opts := demo.Options{
		Duration: c.Duration, Topics: c.Topics, Listen: c.Listen, Admin: c.Admin, JSON: c.JSON, Out: k.Stdout,
		Color:   !c.Headless && isatty.IsTerminal(os.Stdout.Fd()) && os.Getenv("NO_COLOR") == "",
		Version: config.Version(),
		Log:     program.Logger(config.Log{Level: "warn", Format: "text"}),
	}
	switch {
	case c.Headless:
		opts.Admin = ""
	case opts.Admin == "":
		opts.Admin = demo.FreeOr(ctx, config.DefaultAdmin(name))
	}
	return demo.Run(ctx, opts)
}

type loadCmd struct {
	Target   []string      `required:"" placeholder:"URL" help:"Site to visit, as http://host:port; several are taken in turn. Only send load to sites of your own."`
	Duration time.Duration `default:"60s" help:"How long."`
	Topics   int           `default:"3000" help:"Topics of the site."`
}

func (c *loadCmd) Run(ctx context.Context, k *kong.Kong) error {
	if c.Duration <= 0 {
		return config.Usage("--duration %v: want more than 0", c.Duration)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Duration)
	defer cancel()
	return demo.Load(ctx, k.Stdout, c.Target, c.Topics)
}
