package main

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// limitPerSecond is the limit of a hot value on both sides, with the same burst.
const limitPerSecond = 10

// topicRule finds a value hot that is requested twenty times a second. coldRule has the same limit, but these loads
// make no key hot.
const (
	topicRule = `
rules:
  - {name: topic, match: {path: /topic}, params: [id, lang, page],
     hot: {rate: 20, window: 1s}, limit: {rate: 10, burst: 10, scope: instance}}
`
	coldRule = `
rules:
  - {name: topic, match: {path: /topic}, params: [id, lang, page],
     hot: {rate: 100000000, window: 1s}, limit: {rate: 10, burst: 10, scope: instance}}
`
)

const ipWindows = `
ip:
  fixed: {limit: 1000000000, window: 1s, scope: instance}
  sliding: {limit: 100000000, window: 60s, scope: instance}
`

// pipeline is hotparam in one process: the gate counts into a tally, the tally flushes into an aggregator, and the
// aggregator publishes to the gate's mirror.
type pipeline struct {
	gate *gate.Gate
	agg  *aggregate.Aggregator
	stop func() error
}

func newPipeline(yaml string) (*pipeline, error) {
	set, err := rules.Parse("bench.yaml", []byte(yaml))
	if err != nil {
		return nil, err
	}
	mirror := new(hotset.Replica)
	log := slog.New(slog.DiscardHandler)
	agg := aggregate.New(aggregate.Config{Rules: set, Publish: hotset.NewLocalPublisher(mirror, "local"), Log: log})
	count := tally.New(tally.Config{Sink: agg, Log: log})
	p := &pipeline{agg: agg, gate: gate.New(gate.Config{Rules: set, Hot: mirror, Counter: count})}
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	running.Go(func() error { return agg.Run(ctx) })
	running.Go(func() error { return count.Run(ctx) })
	p.stop = func() error { cancel(); return running.Wait() }
	return p, nil
}

// untilHot repeats the request until the pipeline has found its key hot.
func (p *pipeline) untilHot(target string) bool {
	req := request(target)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		if v := p.gate.Decide(context.Background(), time.Now(), req); v.Key != "" {
			return true
		}
		<-tick.C
	}
	return false
}
