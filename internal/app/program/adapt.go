package program

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/pipeline"
)

// adapt limits by what all limiters report. Each aggregator computes the bounds; one of them publishes.
func (a *aggregator) adapt(ctx context.Context) error {
	token := rand.Text()
	read := func(time.Time) []hottype.LimiterReport {
		reports, err := a.feed.ReadReports(ctx)
		if err != nil {
			return nil // the bounds hold; the limiters go back to the configured limits by themselves
		}
		return reports
	}
	return pipeline.Adapt(ctx, a.rules.Load, a.replica, read, func(_ time.Time, bounds []hottype.UpstreamLimit) {
		a.bounds.Store(&bounds)
		if len(bounds) == 0 {
			return
		}
		if _, err := a.feed.PublishBounds(ctx, token, bounds); err != nil {
			a.log.Debug("bounds of adaptive limits were not published; limiters keep the last ones", "err", err)
		}
	})
}

// upstreams returns the bounds that this aggregator computed last.
func (a *aggregator) upstreams() []hottype.UpstreamLimit {
	if b := a.bounds.Load(); b != nil {
		return *b
	}
	return nil
}
