package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// randoms is the default number of random scenarios.
const randoms = 30

// random returns the i-th random scenario: an upstream of 60 to 600 requests a second, of which cold keys have a tenth
// to seven tenths, and hot demand 2 to 50 times the rest (3,000 at most).
func random(i int) scenario {
	r := rand.New(rand.NewPCG(uint64(i), 11))
	between := func(least, most float64) float64 { return least + (most-least)*r.Float64() }
	factor := func(least, most float64) float64 { return least * math.Pow(most/least, r.Float64()) }
	s := scenario{name: fmt.Sprintf("random %d", i), site: usual(), onset: 30}
	capacity := factor(60, 600)
	s.service, s.sigma = factor(0.02, 0.1), between(0.2, 1)
	s.servers = max(2, int(capacity*s.service+0.5))
	capacity = float64(s.servers) / s.service
	cold := capacity * between(0.1, 0.7)
	hot := min(3000, (capacity-cold)*factor(2, 50))
	s.cold, s.hot = level(cold), from(30, 0.1*(capacity-cold), hot)
	s.limiters, s.skewed = 1+r.IntN(6), r.IntN(2) == 0
	if r.IntN(3) == 0 {
		s.queue = s.servers * (2 + r.IntN(8))
	}
	if r.IntN(3) == 0 {
		s.contend = between(0.01, 0.05)
	}
	lost, lag := between(0, 0.2), between(0.2, 2)
	s.report = func(_ float64, r *rand.Rand) float64 {
		if r.Float64() < lost {
			return math.Inf(1)
		}
		return lag
	}
	switch r.IntN(3) {
	case 0:
		s.slower, s.changes = from(70, 1, capacity/(cold+0.4*(capacity-cold))), []float64{70}
	case 1:
		s.cold, s.changes = from(70, cold, cold+0.4*(capacity-cold)), []float64{70}
	}
	quiet := s.service * math.Exp(1.28*s.sigma-s.sigma*s.sigma/2) // nine of ten requests take no longer
	s.target.Latency = time.Duration(quiet * factor(2.5, 6) * float64(time.Second))
	s.least, s.most = 0.02*capacity, 4*capacity
	return s
}

// summary returns one row with the results of the random scenarios.
func summary(n int) string {
	var within, ratio []float64
	back, held, swing, cold, free := 0, 0, 0.0, 0.0, 0.0
	for i := range n {
		s := random(i)
		r := s.score(s.simulate(math.Inf(1), true, 1))
		if r.back <= 10 {
			back++
		}
		if r.within >= 0.95 {
			held++
		}
		within, swing, cold = append(within, r.within), max(swing, r.swing), max(cold, r.cold)
		free += s.score(s.simulate(math.Inf(1), false, 1)).cold / float64(n)
		if best, _ := s.bestFixed(1); best > 0 {
			ratio = append(ratio, r.goodput/best)
		}
	}
	return fmt.Sprintf("| %d random ones, median / worst | %d within 10 s | %s, %d of them at least 95 %% | %s | "+
		"at most ± %.0f %% | at most %.1f %% | %.0f %% |",
		n, back, medianWorst(within), held, medianWorst(ratio), 100*swing, 100*cold, 100*free)
}

func medianWorst(list []float64) string {
	slices.Sort(list)
	return fmt.Sprintf("%.0f / %.0f %%", 100*list[len(list)/2], 100*list[0])
}
