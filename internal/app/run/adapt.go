package run

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
)

// adapt finds what upstreams bear, by what all limiters report, until ctx ends. Each aggregator does; one
// of them publishes.
func (a *aggregator) adapt(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var controllers adaptive.Controllers
	token := rand.Text()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			set := a.rules.Load()
			if len(set.Adapts()) == 0 {
				a.bounds.Store(nil)
				continue
			}
			reports, err := a.feed.ReadReports(ctx)
			if err != nil {
				reports = nil // the bounds hold; the limiters go back to the configured limits by themselves
			}
			bounds := controllers.Tick(now, set, hotOf(a.replica), reports)
			a.bounds.Store(&bounds)
			if len(bounds) == 0 {
				continue
			}
			if _, err := a.feed.PublishBounds(ctx, token, bounds); err != nil {
				a.log.Debug("bounds of adaptive limits were not published; limiters keep the last ones", "err", err)
			}
		}
	}
}

// upstreams are what upstreams bear, as this aggregator finds.
func (a *aggregator) upstreams() []hottype.UpstreamBound {
	if b := a.bounds.Load(); b != nil {
		return *b
	}
	return nil
}
