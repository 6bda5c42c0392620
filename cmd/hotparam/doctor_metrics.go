package main

import (
	"fmt"
	"strings"

	"github.com/hotparam/pipeline/internal/operator/doctor"
)

// refusedGateways reads from /metrics the number of gateways that each listener refuses. It returns nil if the program
// has no such listener.
func refusedGateways(page string) map[string]int {
	var refused map[string]int
	for line := range strings.Lines(page) {
		var name string
		var n int
		if read, _ := fmt.Sscanf(line, "hotparam_gateways_refused{listener=%q} %d", &name, &n); read == 2 {
			if refused == nil {
				refused = map[string]int{}
			}
			refused[name] = n
		}
	}
	return refused
}

// envoyOf reads from /metrics the counters of Envoy's calls.
func envoyOf(admin, page string) doctor.EnvoyInspection {
	in := doctor.EnvoyInspection{Admin: admin}
	for line := range strings.Lines(page) {
		for name, n := range map[string]*float64{
			"too_long": &in.TooLong, "surplus_descriptors": &in.Surplus, "busy": &in.Busy,
		} {
			_, _ = fmt.Sscanf(line, "hotparam_envoy_"+name+"_total %g", n) // other lines change nothing
		}
	}
	return in
}
