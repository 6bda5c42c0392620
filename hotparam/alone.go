package hotparam

import (
	"fmt"
	"runtime"

	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/rules"
)

// alone wires one process:
//
//	gate ──> tally ──> aggregate ──> hot set in memory ──> gate
func (p *Pipeline) alone(cfg Config, set *rules.Set) error {
	if err := detect.Check(set, detect.Options{}); err != nil {
		return fmt.Errorf("hotparam: %w", err)
	}
	found := aggregate.New(aggregate.Config{
		Rules: set, Publish: hotset.Publisher(p.hot, "local"), Shards: runtime.GOMAXPROCS(0), Log: cfg.Log,
	})
	p.tally = tally.New(tally.Config{Sink: found, Log: cfg.Log})
	p.gate = gate.New(gate.Config{Rules: set, Hot: p.hot, Counter: p.tally, Instance: cfg.Instance, Log: cfg.Log})
	p.stages.Add(lifecycle.Sums, "tally", p.tally.Run)
	p.stages.Add(lifecycle.Sinks, "aggregate", found.Run)
	return nil
}
