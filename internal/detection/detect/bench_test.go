package detect

import (
	"fmt"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func benchmarkDetector(b *testing.B, keys, hot int) *Detector {
	b.Helper()
	b.ReportAllocs()
	d := New(set(topic(0)), Options{})
	for i := range keys {
		n := int64(1)
		if i < hot {
			n = 100
		}
		d.Add(at(0), count(hottype.Key(fmt.Sprint("topic?id=", i)), 0, n))
	}
	return d
}

func BenchmarkAdd(b *testing.B) {
	for _, hot := range []int{0, 1000} {
		b.Run(fmt.Sprint("hot", hot), func(b *testing.B) {
			d := benchmarkDetector(b, 1000, hot)
			c := count("topic?id=7", 0, 0)
			c.N = 1
			now := at(0)
			for b.Loop() {
				d.Add(now, c)
			}
		})
	}
}

// BenchmarkTick measures a Tick with 100,000 keys of which some are hot, within one second.
func BenchmarkTick(b *testing.B) {
	for _, hot := range []int{0, 10, 1000} {
		b.Run(fmt.Sprint("hot", hot), func(b *testing.B) {
			d := benchmarkDetector(b, 100_000, hot)
			for b.Loop() {
				d.Tick(at(0.5))
			}
		})
	}
}

// BenchmarkSecond measures one second: 100,000 keys counted once each, 1000 of them hot, and ten Ticks, one of which
// begins a new second.
func BenchmarkSecond(b *testing.B) {
	const keys = 100_000
	d := benchmarkDetector(b, keys, 1000)
	counts := make([]hottype.Count, keys)
	for i := range counts {
		counts[i] = count(hottype.Key(fmt.Sprint("topic?id=", i)), 0, 1)
		if i < 1000 {
			counts[i].N = 100
		}
	}
	second := int64(0)
	for b.Loop() {
		second++
		for tenth := range 10 {
			now := at(float64(second) + float64(tenth)/10)
			for i := tenth * keys / 10; i < (tenth+1)*keys/10; i++ {
				counts[i].Second = now.Unix()
				d.Add(now, counts[i])
			}
			d.Tick(now)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/count")
}
