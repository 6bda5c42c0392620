package redisfeed

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// reportEvery is how often a limiter reports: it may miss four reports in a row
// before it counts as gone.
const reportEvery = time.Second

// Reporter writes a limiter's report once a second and, from the same round
// trips, knows how many limiters are alive. Build it with Feed.Reporter, then
// Run it; Live may be called at any time by any goroutine.
type Reporter struct {
	feed   *Feed
	report func(now time.Time) hottype.Report
	live   atomic.Int64
}

// Reporter makes a reporter of what report says. It is called from Run's
// goroutine only.
func (f *Feed) Reporter(report func(now time.Time) hottype.Report) *Reporter {
	r := &Reporter{feed: f, report: report}
	r.live.Store(1)
	return r
}

// Run reports until ctx ends and returns nil. A report that cannot be written
// is counted and left out: the next one says all that it said.
func (r *Reporter) Run(ctx context.Context) error {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		r.once(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Live is how many limiters are alive, this one included: at least 1. While
// Redis does not answer it stays what it was last, because the others have not
// gone away: they too decide by themselves then, with their share of the limit.
func (r *Reporter) Live() int { return int(r.live.Load()) }

func (r *Reporter) once(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, reportEvery)
	defer cancel()
	live, err := r.feed.writeReport(bounded, r.report(r.feed.now()))
	if err == nil {
		r.live.Store(int64(max(live, 1)))
	}
}
