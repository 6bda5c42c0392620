package rediscontrol

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// second is the set of a detector a second later: rates wander, ten keys leave
// and ten others come.
func second(set report.HotSet, r *rand.Rand) report.HotSet {
	next := renewed(set, time.Second)
	for i := range next.Keys {
		h := &next.Keys[i]
		h.Rate *= 0.95 + 0.1*r.Float64()
		h.Lower, h.Upper = h.Rate, h.Rate
	}
	for range 10 {
		h := &next.Keys[r.IntN(len(next.Keys))]
		h.Key = hottype.Key(fmt.Sprintf("article?id=%x&lang=en", r.Uint64()))
		h.Since = next.At
	}
	return next
}

// BenchmarkSecond measures the cost of a second at 10,000 hot keys: each operation is one publication, delivered to one
// limiter. "whole" writes and reads the whole set, as small sets do.
func BenchmarkSecond(b *testing.B) {
	for _, way := range []string{"whole", "changes"} {
		b.Run(way, func(b *testing.B) {
			s := redistest.Start(b)
			c, reader := open(b, s.Addr()), open(b, s.Addr())
			p := c.Publisher("agg")
			got := make(chan uint64, 16)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() {
				done <- reader.Follow(ctx, func(_ string, set report.HotSet) { got <- set.Version })
			}()
			r := rand.New(rand.NewPCG(1, 2))
			set := varied(now(), 10_000)
			publish(b, p, set)
			for <-got != p.Version() {
			}
			read, sent := reader.Stats().Hot.Bytes, c.Stats().PublishedBytes
			var took, delivered []time.Duration
			for b.Loop() {
				b.StopTimer()
				set = second(set, r)
				if way == "whole" {
					p.log = logSize{}
				}
				<-time.After(2 * syncGap) // publications come a second apart
				b.StartTimer()
				start := time.Now()
				publish(b, p, set)
				took = append(took, time.Since(start))
				for <-got != p.Version() {
				}
				delivered = append(delivered, time.Since(start))
			}
			b.ReportMetric(float64(reader.Stats().Hot.Bytes-read)/float64(b.N), "read-bytes/limiter")
			b.ReportMetric(float64(c.Stats().PublishedBytes-sent)/float64(b.N), "written-bytes")
			b.ReportMetric(median(took), "publish-ms")
			b.ReportMetric(median(delivered), "delivered-ms")
			cancel()
			<-done
		})
	}
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}
