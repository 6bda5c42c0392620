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

// Run reports until ctx ends and returns nil: once a second, and at once when other
// overrides hold. A report that cannot be written is counted and left out: the next one
// says all that it said. The last one says that the limiter has stopped, so that nobody
// takes it for one that is cut off.
func (r *Reporter) Run(ctx context.Context) error {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		r.once(ctx, false)
		select {
		case <-ctx.Done():
			r.once(context.WithoutCancel(ctx), true)
			return nil
		case <-tick.C:
		case <-r.feed.heldNews:
		}
	}
}

// hold notes the version of the overrides that hold in this process from now on.
func (f *Feed) hold(version int64) {
	f.overridesHeld.Store(version)
	select {
	case f.heldNews <- struct{}{}:
	default: // one waiting signal is enough
	}
}

// Live is how many limiters are alive, this one included: at least 1. While
// Redis does not answer it stays what it was last, because the others have not
// gone away: they too decide by themselves then, with their share of the limit.
func (r *Reporter) Live() int { return int(r.live.Load()) }

func (r *Reporter) once(ctx context.Context, stopped bool) {
	bounded, cancel := context.WithTimeout(ctx, reportEvery)
	defer cancel()
	report := r.report(r.feed.now())
	report.Overrides, report.Stopped = r.feed.overridesHeld.Load(), stopped
	live, err := r.feed.WriteReport(bounded, report)
	if err == nil {
		r.live.Store(int64(max(live, 1)))
	}
}
