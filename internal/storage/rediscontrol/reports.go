package rediscontrol

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/wait"
)

// Bounds of the keys of one report. A reader decodes the reports of all limiters each second. So with many limiters
// each reports fewer keys, but more than the page shows.
const (
	maxReportKeys     = 1000
	minReportKeys     = 150
	maxReportKeysOver = 20_000 // of all limiters together, while each has more than minReportKeys
)

// reportKeys returns the number of keys that each limiter reports while limiters is the number of live limiters.
func reportKeys(limiters int64) int {
	return int(min(max(maxReportKeysOver/max(limiters, 1), minReportKeys), maxReportKeys))
}

// WriteReport stores one limiter's decisions so far, for five seconds, in place of its last report. Of more than 1000
// keys, or 150 if there are many limiters, it keeps the keys with the most decisions. A key that is not UTF-8 is shown
// with U+FFFD. It takes one round trip.
func (f *Feed) WriteReport(ctx context.Context, r report.Limiter) error {
	if !conf.ValidID(r.Instance) {
		return fmt.Errorf("rediscontrol: report of instance %q: the name must be 1 to 128 printable bytes without spaces", r.Instance)
	}
	text, err := encode(f.boundedReport(r, reportKeys(f.limiters.Load())))
	if err != nil {
		return err
	}
	live, err := writeReport.Run(ctx, f.rdb,
		[]string{f.keys.Report(r.Instance), f.keys.ReportIndex()},
		r.Instance, text, reportLife.Milliseconds(),
	).Int()
	if err != nil {
		f.counters.add(func(s *Stats) { s.ReportErrors++ })
		return fmt.Errorf("rediscontrol: write report of %q: %w", r.Instance, err)
	}
	f.limiters.Store(int64(max(live, 1)))
	return nil
}

// boundedReport leaves out the keys with the fewest decisions, and the overrides with the fewest hits. The caller's
// slice is not changed.
func (f *Feed) boundedReport(r report.Limiter, keys int) report.Limiter {
	f.counters.add(func(s *Stats) { s.ReportKeysCut += uint64(max(0, len(r.Keys)-keys)) })
	r.Keys = heaviestEntries(r.Keys, keys, func(a, b report.KeyDecisions) int {
		return cmp.Or(cmp.Compare(b.Allowed+b.Denied, a.Allowed+a.Denied), cmp.Compare(a.Key, b.Key))
	})
	r.OverrideHits = heaviestEntries(r.OverrideHits, maxReportKeys, func(a, b report.OverrideHits) int {
		return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.ID, b.ID))
	})
	return r
}

func heaviestEntries[T any](list []T, most int, compare func(a, b T) int) []T {
	if len(list) <= most {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return list[:most]
}

// ReadReports returns the reports of the last five seconds, by instance. It takes two round trips.
func (f *Feed) ReadReports(ctx context.Context) ([]report.Limiter, error) {
	keys, err := f.rdb.ZRange(ctx, f.keys.ReportIndex(), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("rediscontrol: read %s: %w", f.keys.ReportIndex(), err)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	for i, instance := range keys {
		keys[i] = f.keys.Report(instance)
	}
	values, err := f.rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("rediscontrol: read %d reports: %w", len(keys), err)
	}
	out := make([]report.Limiter, 0, len(values))
	for i, v := range values {
		text, ok := v.(string)
		if !ok {
			continue // the report expired
		}
		var r report.Limiter
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			f.counters.add(func(s *Stats) { s.ReportsMalformed++ })
			f.log.Debug("rediscontrol: report cannot be read", "key", keys[i], "err", err)
			continue
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b report.Limiter) int { return strings.Compare(a.Instance, b.Instance) })
	return out, nil
}

// reportEvery is the interval of a limiter's reports; after four missed reports the limiter counts as stopped.
const reportEvery = time.Second

// Reporter writes a limiter's report once a second and learns from the reply how many limiters are alive. Build it with
// Feed.Reporter, then Run it; Live is safe for concurrent use.
type Reporter struct {
	feed   *Feed
	report func(now time.Time) report.Limiter
}

// Reporter returns a reporter. Only Run's goroutine calls report.
func (f *Feed) Reporter(report func(now time.Time) report.Limiter) *Reporter {
	return &Reporter{feed: f, report: report}
}

// Run reports until ctx ends and returns nil: once a second, and at once when other overrides hold. The report after a
// failed one repeats it. The last report marks the limiter as stopped, not cut off.
func (r *Reporter) Run(ctx context.Context) error {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		r.reportOnce(ctx, false)
		select {
		case <-ctx.Done():
			r.reportOnce(context.WithoutCancel(ctx), true)
			return nil
		case <-tick.C:
		case <-r.feed.heldChanged:
		}
	}
}

// Live returns the number of live limiters, at least 1. Without Redis the number stays, because the other limiters
// continue by themselves, with their share of the limit.
func (r *Reporter) Live() int { return int(max(r.feed.limiters.Load(), 1)) }

func (r *Reporter) reportOnce(ctx context.Context, stopped bool) {
	bounded, cancel := context.WithTimeout(ctx, reportEvery)
	defer cancel()
	report := r.report(r.feed.now())
	report.OverridesRevision, report.Stopped = r.feed.overridesHeld.Load(), stopped
	_ = r.feed.WriteReport(bounded, report) // a failure is counted, and the next report repeats it
}

const (
	// boundsLease is how long an aggregator's bounds stay in force after its last message.
	boundsLease = 3 * time.Second
	// boundsLife is how long limiters that start may read them.
	boundsLife = 10 * time.Second
	// boundsEvery is the interval at which limiters read them.
	boundsEvery = 500 * time.Millisecond
)

// PublishBounds stores the limits of upstreams, for ten seconds. Of several processes with different tokens only one
// stores its limits; published is false for the others. It takes one round trip.
func (f *Feed) PublishBounds(ctx context.Context, token string,
	list []hottype.UpstreamLimit) (published bool, err error) {
	text, err := json.Marshal(list)
	if err != nil {
		return false, fmt.Errorf("rediscontrol: bounds: %w", err)
	}
	n, err := publishBounds.Run(ctx, f.rdb, []string{f.keys.BoundsOwner(), f.keys.Bounds()},
		token, text, boundsLease.Milliseconds(), boundsLife.Milliseconds()).Int()
	if err != nil {
		return false, fmt.Errorf("rediscontrol: publish bounds: %w", err)
	}
	return n == 1, nil
}

// FollowBounds calls take with each new list until ctx ends, and returns nil. It polls twice a second while wanted
// returns true. Unreadable bounds count as malformed reports.
func (f *Feed) FollowBounds(ctx context.Context, wanted func() bool, take func([]hottype.UpstreamLimit)) error {
	last := ""
	wait.Every(ctx, boundsEvery, func() {
		if !wanted() {
			return
		}
		bounded, cancel := context.WithTimeout(ctx, boundsEvery)
		defer cancel()
		text, err := f.rdb.Get(bounded, f.keys.Bounds()).Result()
		if err != nil || text == last {
			return // the last list holds for a while
		}
		last = text
		var list []hottype.UpstreamLimit
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			f.counters.add(func(s *Stats) { s.ReportsMalformed++ })
			f.log.Debug("rediscontrol: bounds cannot be read", "key", f.keys.Bounds(), "err", err)
			return
		}
		take(list)
	})
	return nil
}
