package main

import (
	"fmt"
	"math"
)

// calm returns a site whose hot keys ask for seven tenths of the requests that the upstream can answer, from the first
// second on. The controller finds its target by itself.
func calm(servers, limiters int, sigma float64) site {
	s := usual()
	s.seconds, s.servers, s.service, s.sigma, s.limiters = 600, servers, 0.04, sigma, limiters
	capacity := float64(servers) / s.service
	s.cold, s.hot = level(0), level(0.7*capacity)
	s.target.Latency = 0
	s.least, s.most = 0.1*capacity, 4*capacity
	return s
}

// denied returns the share of the requests for hot keys that the controller denies in some runs, in percent.
func (s site) denied(seeds uint64) float64 {
	hot, refused := 0, 0
	for seed := range seeds {
		for _, o := range s.simulate(math.Inf(1), true, seed+1) {
			hot, refused = hot+o.hot, refused+o.refused
		}
	}
	return 100 * float64(refused) / float64(hot)
}

// calmTable prints the requests that are denied although nothing is overloaded.
func calmTable() {
	fmt.Println("| servers | spread of their time | 1 limiter | 5 limiters | 10 limiters |\n|---|---|---|---|---|")
	for _, servers := range []int{2, 4, 8, 16, 40} {
		for _, sigma := range []float64{0.25, 0.5, 1} {
			fmt.Printf("| %d | %v |", servers, sigma)
			for _, limiters := range []int{1, 5, 10} {
				fmt.Printf(" %.2f %% |", calm(servers, limiters, sigma).denied(3))
			}
			fmt.Println()
		}
	}
}
