package main

import (
	"context"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/app/run"
)

// The programs of a pipeline on several machines are also commands of this one:
// one binary is enough for an image. The mains of their own in cmd/ are the same.

type collectorCmd struct{ config.Collector }

func (c *collectorCmd) Run(ctx context.Context, p *config.Parser) error {
	return run.Collector(ctx, c.Collector, p, config.Version())
}

type aggregatorCmd struct{ config.Aggregator }

func (c *aggregatorCmd) Run(ctx context.Context, p *config.Parser) error {
	return run.Aggregator(ctx, c.Aggregator, p, config.Version())
}

type sidecarCmd struct{ config.Sidecar }

func (c *sidecarCmd) Run(ctx context.Context, p *config.Parser) error {
	return run.Sidecar(ctx, c.Sidecar, p, config.Version())
}
