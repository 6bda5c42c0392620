package main

import (
	"math"
	"slices"

	"github.com/hotparam/pipeline/internal/deciding/adaptive"
)

// score holds the results of a run.
type score struct {
	back    int     // largest number of seconds from the onset or a change until the target is held for three seconds
	within  float64 // fraction of the steady seconds in which the target is held
	goodput float64 // answers in time per second, while it is steady
	swing   float64 // bound on the distance of nine of ten means of five steady seconds from the mean of their phase
	cold    float64 // fraction of the cold requests that failed, from the onset on
}

// settled is the number of seconds after the onset or a change from which a run is steady.
const settled = 20

// enough is the number of requests from which a quantile is taken. Fewer requests are pooled over some seconds.
const enough = 60

func (s *scenario) score(out []second) score {
	target := s.target.Latency.Seconds()
	if target == 0 {
		target = 1.6 * 0.1 // of the quiet site
	}
	held := s.held(out, target)
	phases := append([]int{int(s.onset)}, ints(s.changes)...)
	r, seconds, cold, failed := score{}, 0, 0, 0
	var swings []float64
	for n, begin := range phases {
		end := len(out)
		if n+1 < len(phases) {
			end = phases[n+1]
		}
		r.back = max(r.back, back(held[begin:end]))
		var rates []float64
		for i := begin; i < end; i++ {
			cold, failed = cold+out[i].cold, failed+out[i].coldFailed
			if i < begin+settled && begin+settled < end {
				continue
			}
			seconds++
			r.goodput += float64(out[i].ok)
			if held[i] {
				r.within++
			}
			if out[i].refused > 0 {
				rates = append(rates, float64(out[i].hot-out[i].refused))
			}
		}
		swings = append(swings, swing(rates))
	}
	r.within /= float64(seconds)
	r.goodput /= float64(seconds)
	r.swing = slices.Max(swings)
	r.cold = float64(failed) / math.Max(1, float64(cold))
	return r
}

// held returns for each second whether the target was held.
func (s *scenario) held(out []second, target float64) []bool {
	list := make([]bool, len(out))
	for i := range out {
		var sum, other adaptive.Histogram
		ok, failed := 0, 0
		for k := i; k >= 0 && ok+failed < enough && i-k < 5; k-- {
			sum.Merge(&out[k].latency)
			other.Merge(&out[k].beside)
			ok, failed = ok+out[k].ok, failed+out[k].failed
		}
		worst := max(sum.Quantile(0.9), other.Quantile(0.9)).Seconds()
		list[i] = worst <= target && float64(failed) <= 0.01*float64(ok+failed)+1
	}
	return list
}

func back(held []bool) int {
	for i := 0; i+3 <= len(held); i++ {
		if held[i] && held[i+1] && held[i+2] {
			return i
		}
	}
	return len(held)
}

func ints(list []float64) (out []int) {
	for _, f := range list {
		out = append(out, int(f))
	}
	return out
}

// swing returns the distance from their mean that nine of ten means of five seconds do not exceed.
func swing(rates []float64) float64 {
	if len(rates) < 10 {
		return 0
	}
	mean := 0.0
	for _, r := range rates {
		mean += r / float64(len(rates))
	}
	var off []float64
	for i := 0; i+5 <= len(rates); i++ {
		sum := 0.0
		for _, r := range rates[i : i+5] {
			sum += r / 5
		}
		off = append(off, math.Abs(sum-mean)/mean)
	}
	slices.Sort(off)
	return off[len(off)*9/10]
}

// bestFixed returns the goodput and the rate of the best fixed limit that holds the target in nine of ten seconds.
func (s *scenario) bestFixed(seed uint64) (goodput, rate float64) {
	for f := 0.02; f < 1.2; f *= 1.25 {
		limit := f * float64(s.servers) / s.service
		r := s.score(s.simulate(limit, false, seed))
		if r.within >= 0.9 && r.goodput > goodput {
			goodput, rate = r.goodput, limit
		}
	}
	return goodput, rate
}
