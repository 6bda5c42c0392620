package redislimits

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// BenchmarkLimiterLog measures full sliding logs, and a bucketed window, for the cost of a state that is read and
// written whole.
func BenchmarkLimiterLog(b *testing.B) {
	s := redistest.Start(b)
	l, ctx := openLimiter(b, s.Addr()), context.Background()
	for _, spec := range []limit.Spec{
		{Algorithm: limit.SlidingLog, Limit: 100, Window: time.Hour},
		{Algorithm: limit.SlidingLog, Limit: 1000, Window: time.Hour},
		{Algorithm: limit.SlidingLog, Limit: limitcore.MaxLog, Window: time.Hour},
		{Algorithm: limit.BucketedWindow, Limit: 1 << 40, Window: 10 * time.Millisecond, Buckets: 10},
	} {
		b.Run(fmt.Sprintf("%s/limit=%d", spec.Algorithm, spec.Limit), func(b *testing.B) {
			charges, results := []limit.Charge{{Subject: limit.Subject{Space: "hot", Name: b.Name()}, Spec: spec,
				Cost: 1}}, make([]limit.Result, 1)
			take := func() {
				if _, err := l.Take(ctx, time.Time{}, charges, results); err != nil {
					b.Fatal(err)
				}
			}
			for range min(spec.Limit-1, limitcore.MaxLog-1) {
				take()
			}
			s.Client().ConfigResetStat(ctx)
			for b.Loop() {
				take()
			}
			b.ReportMetric(scriptTime(b, s), "redis-us/op")
		})
	}
}
