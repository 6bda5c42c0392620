package rediscontrol

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/report"
)

const (
	// aggregatorLife is how long the reports outlive the last aggregator, so that the next one knows the use of the
	// rules in the last hour.
	aggregatorLife = 2 * time.Hour
	// aggregatorGone is the age from which on another aggregator removes a report, which it has merged by then.
	aggregatorGone = time.Minute
)

// ExchangeAggregators stores the report of one aggregator, and returns the reports of all that run or ran shortly
// before. A single aggregator that restarts reads its own report of the last run. It takes one round trip, or two if it
// removes the report of an aggregator that stopped.
func (f *Feed) ExchangeAggregators(ctx context.Context, own report.Aggregator) ([]report.Aggregator,
	error) {
	if !conf.ValidID(own.Instance) {
		return nil, fmt.Errorf("rediscontrol: report of aggregator %q: the name must be 1 to 128 printable bytes without spaces",
			own.Instance)
	}
	text, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("rediscontrol: report of aggregator %q: %w", own.Instance, err)
	}
	key := f.keys.Aggregators()
	var stored *redis.MapStringStringCmd
	_, err = f.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		stored = p.HGetAll(ctx, key)
		p.HSet(ctx, key, own.Instance, text)
		p.PExpire(ctx, key, aggregatorLife)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("rediscontrol: exchange %s: %w", key, err)
	}
	all := f.readAggregators(stored.Val())
	var gone []string
	for name := range stored.Val() {
		i := slices.IndexFunc(all, func(r report.Aggregator) bool { return r.Instance == name })
		if name != own.Instance && (i < 0 || f.now().Sub(all[i].At).Abs() > aggregatorGone) {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		if err := f.rdb.HDel(ctx, key, gone...).Err(); err != nil {
			return all, fmt.Errorf("rediscontrol: trim %s: %w", key, err)
		}
	}
	return all, nil
}

// aggregatorRuns is the age from which on an aggregator counts as stopped. It is long, because the age is the
// difference of two clocks.
const aggregatorRuns = 30 * time.Second

// ReadAggregators returns the reports of the running aggregators, sorted by instance. It takes one round trip.
func (f *Feed) ReadAggregators(ctx context.Context) ([]report.Aggregator, error) {
	stored, err := f.rdb.HGetAll(ctx, f.keys.Aggregators()).Result()
	if err != nil {
		return nil, fmt.Errorf("rediscontrol: read %s: %w", f.keys.Aggregators(), err)
	}
	return slices.DeleteFunc(f.readAggregators(stored), func(r report.Aggregator) bool {
		return f.now().Sub(r.At).Abs() > aggregatorRuns
	}), nil
}

// readAggregators decodes reports. It leaves out reports that cannot be read, or whose instance is not the name of
// their field.
func (f *Feed) readAggregators(stored map[string]string) []report.Aggregator {
	all := make([]report.Aggregator, 0, len(stored))
	for name, text := range stored {
		var r report.Aggregator
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.Instance != name {
			f.counters.add(func(s *Stats) { s.ReportsMalformed++ })
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b report.Aggregator) int { return strings.Compare(a.Instance, b.Instance) })
	return all
}
