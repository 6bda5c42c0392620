package redisstore

import (
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
func (c *Client) WriteReport(ctx context.Context, r hottype.Report) error {
	_, err := c.writeReport(ctx, r)
	return err
}

// writeReport also tells how many limiters are alive, this one included.
func (c *Client) writeReport(ctx context.Context, r hottype.Report) (live int, err error) {
	if !validID(r.Instance) {
		return 0, fmt.Errorf("redisstore: report of instance %q: want 1 to 128 printable bytes, no spaces", r.Instance)
	}
	text, err := encode(c.bounded(r))
	if err != nil {
		return 0, err
	}
	live, err = c.scripts.writeReport.Run(ctx, c.rdb,
		[]string{c.keys.report(r.Instance), c.keys.reportIndex()},
		r.Instance, text, reportLife.Milliseconds(),
	).Int()
	if err != nil {
		c.counters.reportErrors.Add(1)
		return 0, fmt.Errorf("redisstore: write report of %q: %w", r.Instance, err)
	}
	return live, nil
}

// bounded leaves out the keys with the fewest decisions. The caller's slice is
// not changed.
func (c *Client) bounded(r hottype.Report) hottype.Report {
	if len(r.Keys) <= maxReportKeys {
		return r
	}
	c.counters.reportKeysCut.Add(uint64(len(r.Keys) - maxReportKeys))
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
func (c *Client) ReadReports(ctx context.Context) ([]hottype.Report, error) {
	keys, err := c.reportKeys(ctx)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	values, err := c.rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("redisstore: read %d reports: %w", len(keys), err)
	}
	out := make([]hottype.Report, 0, len(values))
	for i, v := range values {
		text, ok := v.(string)
		if !ok {
			continue // it expired
		}
		var r hottype.Report
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			c.counters.reportsMalformed.Add(1)
			c.log.Debug("redisstore: report cannot be read", "key", keys[i], "err", err)
			continue
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b hottype.Report) int { return strings.Compare(a.Instance, b.Instance) })
	return out, nil
}

// LiveLimiters counts the limiters that wrote a report in the last five
// seconds. Two round trips; a [Reporter] knows the number without any.
func (c *Client) LiveLimiters(ctx context.Context) (int, error) {
	keys, err := c.reportKeys(ctx)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	n, err := c.rdb.Exists(ctx, keys...).Result()
	if err != nil {
		return 0, fmt.Errorf("redisstore: count limiters: %w", err)
	}
	return int(n), nil
}

// reportKeys lists the keys of the reports that may be there.
func (c *Client) reportKeys(ctx context.Context) ([]string, error) {
	instances, err := c.rdb.ZRange(ctx, c.keys.reportIndex(), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("redisstore: read %s: %w", c.keys.reportIndex(), err)
	}
	keys := make([]string, len(instances))
	for i, instance := range instances {
		keys[i] = c.keys.report(instance)
	}
	return keys, nil
}
