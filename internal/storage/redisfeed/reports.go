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
// place of its last report. Of more than 1000 keys it keeps those with the most
// decisions. A key that is not UTF-8 is shown with U+FFFD. One round trip.
func (f *Feed) WriteReport(ctx context.Context, r hottype.Report) error {
	_, err := f.writeReport(ctx, r)
	return err
}

// writeReport also tells how many limiters are alive, this one included.
func (f *Feed) writeReport(ctx context.Context, r hottype.Report) (live int, err error) {
	if !validID(r.Instance) {
		return 0, fmt.Errorf("redisfeed: report of instance %q: want 1 to 128 printable bytes, no spaces", r.Instance)
	}
	text, err := encode(f.bounded(r))
	if err != nil {
		return 0, err
	}
	live, err = f.scripts.writeReport.Run(ctx, f.rdb,
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
		switch na, nb := a.Allowed+a.Denied, b.Allowed+b.Denied; {
		case na > nb:
			return -1
		case na < nb:
			return 1
		}
		return strings.Compare(string(a.Key), string(b.Key))
	})
	r.Keys = r.Keys[:maxReportKeys]
	return r
}

// ReadReports returns the reports of all limiters that wrote one in the last
// five seconds, by instance. Two round trips.
func (f *Feed) ReadReports(ctx context.Context) ([]hottype.Report, error) {
	keys, err := f.reportKeys(ctx)
	if err != nil || len(keys) == 0 {
		return nil, err
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

// LiveLimiters counts the limiters that wrote a report in the last five
// seconds. Two round trips; a [Reporter] knows the number without any.
func (f *Feed) LiveLimiters(ctx context.Context) (int, error) {
	keys, err := f.reportKeys(ctx)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	n, err := f.rdb.Exists(ctx, keys...).Result()
	if err != nil {
		return 0, fmt.Errorf("redisfeed: count limiters: %w", err)
	}
	return int(n), nil
}

// reportKeys lists the keys of the reports that may be there.
func (f *Feed) reportKeys(ctx context.Context) ([]string, error) {
	instances, err := f.rdb.ZRange(ctx, f.keys.ReportIndex(), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("redisfeed: read %s: %w", f.keys.ReportIndex(), err)
	}
	keys := make([]string, len(instances))
	for i, instance := range instances {
		keys[i] = f.keys.Report(instance)
	}
	return keys, nil
}
