package detect

import (
	"math/rand/v2"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// BenchmarkTraffic measures five updates in 20 us of the traffic's own time, over many keys with probability 1/rank or
// over keys that never come again, in batches as they come from a socket and with ten Ticks a second.
func BenchmarkTraffic(b *testing.B) {
	const distinct, draws = 1 << 20, 1 << 21
	keys := make([]hottype.Key, distinct)
	sums, sum := make([]float64, distinct), 0.0
	for i := range keys {
		keys[i] = hottype.Key("topic?id=" + strconv.FormatUint(uint64(i)*0x9e3779b97f4a7c15, 36))
		sum += 1 / float64(i+1)
		sums[i] = sum
	}
	r := rand.New(rand.NewPCG(1, 2))
	places := r.Perm(distinct)
	zipf, unique := make([]hottype.Key, draws), make([]hottype.Key, draws)
	for i := range zipf {
		zipf[i] = keys[places[sort.SearchFloat64s(sums, r.Float64()*sum)]]
		unique[i] = keys[i%distinct]
	}
	for name, order := range map[string][]hottype.Key{"zipf": zipf, "unique": unique} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			rule := topic(1000)
			rule.Hot.Rate = 200
			d := New(set(rule), Options{})
			counts := make([]hottype.Count, 1000)
			i := 0
			step := func() {
				now := start.Add(time.Duration(i) * 4 * time.Microsecond)
				for k := range counts {
					counts[k] = hottype.Count{Key: order[(i+k)%draws], N: 1, Second: now.Unix()}
				}
				d.AddAll(now, counts)
				if i += len(counts); i%25_000 == 0 {
					d.Tick(now)
				}
			}
			for range 1500 {
				step()
			}
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(b.N*len(counts))/b.Elapsed().Seconds()/1e6, "M/s")
			b.ReportMetric(float64(d.Stats().Error), "error")
		})
	}
}
