package adaptive

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A quantile is within a sixteenth of the exact one, over the whole range.
func TestQuantile(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(math.Exp(r.Float64()*18)) * time.Microsecond
		all = append(all, d)
		h.Add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		want, got := all[max(0, int(math.Ceil(q*10_000))-1)].Seconds(), h.Quantile(q).Seconds()
		if math.Abs(got-want) > want/16+1e-6 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}

func TestPairsCarryAHistogram(t *testing.T) {
	t.Parallel()
	var a, b Histogram
	for _, d := range []time.Duration{-1, 0, 1, time.Millisecond, 35 * time.Millisecond, 35 * time.Millisecond,
		time.Hour} {
		a.Add(d)
	}
	b.MergePairs(a.Pairs(), a.sum)
	if diff := cmp.Diff(a, b, cmp.AllowUnexported(Histogram{})); diff != "" {
		t.Error(diff)
	}
	// Invalid pairs are left out.
	b.MergePairs([]int64{-1, 5, buckets, 5, 3, -5, 3, math.MaxInt64, 3}, -time.Hour)
	if diff := cmp.Diff(a, b, cmp.AllowUnexported(Histogram{})); diff != "" {
		t.Error(diff)
	}
	if (&Histogram{}).Quantile(0.9) != 0 || (&Histogram{}).Mean() != 0 {
		t.Error("an empty one has a quantile")
	}
}
