package redisfeed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxReportKeys bounds one report: dashboards show the busiest keys.
const maxReportKeys = 1000

// WriteReport stores what one limiter has decided so far, for five seconds, in
// place of its last report, and tells how many limiters are alive, this one
// included. Of more than 1000 keys it keeps those with the most decisions. A key
// that is not UTF-8 is shown with U+FFFD. One round trip.
func (f *Feed) WriteReport(ctx context.Context, r hottype.Report) (live int, err error) {
	if !validID(r.Instance) {
		return 0, fmt.Errorf("redisfeed: report of instance %q: want 1 to 128 printable bytes, no spaces", r.Instance)
	}
	text, err := encode(f.bounded(r))
	if err != nil {
		return 0, err
	}
	live, err = writeReport.Run(ctx, f.rdb,
		[]string{f.keys.Report(r.Instance), f.keys.ReportIndex()},
		r.Instance, text, reportLife.Milliseconds(),
	).Int()
	if err != nil {
		f.counters.reportErrors.Add(1)
		return 0, fmt.Errorf("redisfeed: write report of %q: %w", r.Instance, err)
	}
	return live, nil
}

// bounded leaves out the keys with the fewest decisions, and the overrides with the fewest hits. The caller's slice is
// not changed.
func (f *Feed) bounded(r hottype.Report) hottype.Report {
	if len(r.OverrideHits) > maxReportKeys {
		r.OverrideHits = slices.Clone(r.OverrideHits)
		slices.SortFunc(r.OverrideHits, func(a, b hottype.OverrideHits) int {
			return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.ID, b.ID))
		})
		r.OverrideHits = r.OverrideHits[:maxReportKeys]
	}
	if len(r.Keys) <= maxReportKeys {
		return r
	}
	f.counters.reportKeysCut.Add(uint64(len(r.Keys) - maxReportKeys))
	r.Keys = slices.Clone(r.Keys)
	slices.SortFunc(r.Keys, func(a, b hottype.KeyDecisions) int {
		return cmp.Or(cmp.Compare(b.Allowed+b.Denied, a.Allowed+a.Denied), cmp.Compare(a.Key, b.Key))
	})
	r.Keys = r.Keys[:maxReportKeys]
	return r
}

// ReadReports returns the reports of all limiters that wrote one in the last
// five seconds, by instance. Two round trips.
func (f *Feed) ReadReports(ctx context.Context) ([]hottype.Report, error) {
	keys, err := f.rdb.ZRange(ctx, f.keys.ReportIndex(), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("redisfeed: read %s: %w", f.keys.ReportIndex(), err)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	for i, instance := range keys {
		keys[i] = f.keys.Report(instance)
	}
	values, err := f.rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("redisfeed: read %d reports: %w", len(keys), err)
	}
	out := make([]hottype.Report, 0, len(values))
	for i, v := range values {
		text, ok := v.(string)
		if !ok {
			continue // it expired
		}
		var r hottype.Report
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			f.counters.reportsMalformed.Add(1)
			f.log.Debug("redisfeed: report cannot be read", "key", keys[i], "err", err)
			continue
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b hottype.Report) int { return strings.Compare(a.Instance, b.Instance) })
	return out, nil
}
