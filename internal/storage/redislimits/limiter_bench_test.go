package redislimits

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// BenchmarkLimiter measures one caller after another, on a real server. "redis-us/op" is the time that the server
// itself spends on a decision, which bounds a cluster.
func BenchmarkLimiter(b *testing.B) {
	s := redistest.Start(b)
	l, ctx := openLimiter(b, s.Addr()), context.Background()
	for _, n := range []int{1, 3} {
		for _, admits := range []int64{1_000_000, 1} {
			b.Run(fmt.Sprintf("charges=%d/limit=%d", n, admits), func(b *testing.B) {
				charges, results := aRequest()
				for i := range charges {
					charges[i].Subject.Name += b.Name()
					charges[i].Spec.Limit, charges[i].Spec.Burst = admits, admits
				}
				if _, err := l.Take(ctx, time.Time{}, charges[:n], results[:n]); err != nil {
					b.Fatal(err)
				}
				s.Client().ConfigResetStat(ctx)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := l.Take(ctx, time.Time{}, charges[:n], results[:n]); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(scriptTime(b, s), "redis-us/op")
			})
		}
	}
}

var perCall = regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=\d+,usec_per_call=([0-9.]+)`)

// scriptTime returns the time that the server itself spent on a call of a script, in us, since its statistics were
// reset.
func scriptTime(b *testing.B, s *redistest.Server) float64 {
	b.Helper()
	stats := s.Client().Info(context.Background(), "commandstats").Val()
	found := perCall.FindStringSubmatch(stats)
	if found == nil {
		b.Fatalf("no script calls in %q", stats)
	}
	us, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return us
}

// BenchmarkLimiterParallel measures many callers on one hot key.
func BenchmarkLimiterParallel(b *testing.B) {
	l := openLimiter(b, redistest.Start(b).Addr())
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		charges, _ := aRequest()
		results := make([]limit.Result, 1)
		for pb.Next() {
			if _, err := l.Take(context.Background(), time.Time{}, charges[:1], results); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
