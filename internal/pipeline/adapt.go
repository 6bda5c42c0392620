package pipeline

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
)

// adaptEvery is how often controllers look at what was seen.
const adaptEvery = time.Second

// adapt finds what upstreams bear, by what this process alone sees, until ctx ends.
func (p *Pipeline) adapt(ctx context.Context) error {
	tick := time.NewTicker(adaptEvery)
	defer tick.Stop()
	var controllers adaptive.Controllers
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if !p.adapts() {
				continue
			}
			seen := []hottype.Report{{At: now, Upstreams: p.Gate.Upstreams().Reports(now)}}
			p.Gate.Upstreams().SetBounds(now, controllers.Tick(now, p.Gate.Rules(), p.hot(now), seen))
		}
	}
}

// adapts reports whether a limit follows an upstream.
func (p *Pipeline) adapts() bool { return len(p.Gate.Rules().Adapts()) > 0 }

// setBounds applies what the aggregator says.
func (p *Pipeline) setBounds(list []hottype.UpstreamBound) {
	p.Gate.Upstreams().SetBounds(time.Now(), list)
}

// Bounds are what holds here of what upstreams bear.
func (p *Pipeline) Bounds() []hottype.UpstreamBound { return p.Gate.Upstreams().Bounds(time.Now()) }

// hot are the keys that are hot now.
func (p *Pipeline) hot(now time.Time) []hottype.Hot {
	entries := p.Hot.Entries(now)
	list := make([]hottype.Hot, len(entries))
	for i, e := range entries {
		list[i] = e.Hot()
	}
	return list
}
