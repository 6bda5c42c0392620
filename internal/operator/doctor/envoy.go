package doctor

import "fmt"

// EnvoyInspection holds counters of a running program about Envoy's calls since its start.
type EnvoyInspection struct {
	// Admin is the URL of the program's admin listener.
	Admin string
	// TooLong is the number of requests that were denied because of their length, Surplus is the number of descriptors
	// that were not decided, and Busy is the number of calls without a response.
	TooLong, Surplus, Busy float64
}

// Envoy reports requests that Envoy accepts and the program does not.
func Envoy(in EnvoyInspection) []Finding {
	l := &list{where: "calls of Envoy at " + in.Admin}
	if in.TooLong > 0 {
		l.addWarning(Finding{
			What: fmt.Sprintf("%.0f requests were denied because their header is longer than 1 MiB", in.TooLong),
			Why:  "Envoy accepts longer headers than its limiter",
			Fix:  "max_request_headers_kb: 60   # of Envoy's HTTP connection manager: its default, at most 1000"})
	}
	if in.Surplus > 0 {
		l.addWarning(Finding{What: fmt.Sprintf("%.0f descriptors were not decided", in.Surplus),
			Why: "a call has more than 100 descriptors, or one of them more than 100 entries: these limit nothing",
			Fix: "rate_limits: […]   # of the route in Envoy: at most 100 of at most 100 actions"})
	}
	if in.Busy > 0 {
		l.addWarning(Finding{
			What: fmt.Sprintf("%.0f calls got no answer because those under way took all memory that they may have",
				in.Busy),
			Why: "Envoy lets such requests pass (failure_mode_allow: true) or answers 403",
			Fix: "run several limiters, or let Envoy have fewer requests under way: circuit_breakers: {thresholds: " +
				"[{max_requests: 1000}]} of its cluster hotparam"})
	}
	return l.findings
}
