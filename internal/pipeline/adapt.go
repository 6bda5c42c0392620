package pipeline

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// adaptEvery is the interval of the controllers.
const adaptEvery = time.Second

// Adapt runs the controllers of adaptive limits until ctx ends: read returns what limiters report of
// their upstreams, and apply gets the limits that follow, nil while no rule adapts.
func Adapt(ctx context.Context, set func() *rules.Set, hot *hotset.Replica,
	read func(now time.Time) []hottype.LimiterReport, apply func(now time.Time, bounds []hottype.UpstreamLimit)) error {
	tick := time.NewTicker(adaptEvery)
	defer tick.Stop()
	var controllers adaptive.Controllers
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			var bounds []hottype.UpstreamLimit
			if set := set(); len(set.AdaptiveUpstreams()) > 0 {
				bounds = controllers.Tick(now, set, hot.Hot(now), read(now))
			}
			apply(now, bounds)
		}
	}
}

// adapt limits by what this process alone sees.
func (p *Pipeline) adapt(ctx context.Context) error {
	upstreams := p.Gate.Upstreams()
	read := func(now time.Time) []hottype.LimiterReport {
		return []hottype.LimiterReport{{At: now, Upstreams: upstreams.Reports(now)}}
	}
	return Adapt(ctx, p.Gate.Rules, p.Hot, read, func(now time.Time, bounds []hottype.UpstreamLimit) {
		if p.adapts() {
			upstreams.SetBounds(now, bounds)
		}
	})
}

// adapts reports whether a limit follows an upstream.
func (p *Pipeline) adapts() bool { return len(p.Gate.Rules().AdaptiveUpstreams()) > 0 }

// setBounds applies what the aggregator says.
func (p *Pipeline) setBounds(list []hottype.UpstreamLimit) {
	p.Gate.Upstreams().SetBounds(time.Now(), list)
}

// Bounds are what holds here of what upstreams bear.
func (p *Pipeline) Bounds() []hottype.UpstreamLimit { return p.Gate.Upstreams().Bounds(time.Now()) }
