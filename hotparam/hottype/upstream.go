package hottype

import "time"

// DefaultUpstream is the name of the upstream of rules that name none.
const DefaultUpstream = "default"

// UpstreamReport is what one limiter saw of one upstream since its last report, about a second.
type UpstreamReport struct {
	Name string `json:"name"`
	// Seconds is how long that was.
	Seconds float64 `json:"seconds"`
	// OK and Errors are the requests that the upstream answered, and those that it failed.
	OK     int64 `json:"ok"`
	Errors int64 `json:"errors"`
	// InFlight is how many requests waited for their answer, on average.
	InFlight float64 `json:"in_flight"`
	// Hot and Cold are the requests admitted, by whether an adaptive limit holds for them.
	// Refused are those that adaptive limits refused.
	Hot     int64 `json:"hot"`
	Cold    int64 `json:"cold"`
	Refused int64 `json:"refused"`
	// Latency has pairs: a bucket of package adaptive's histogram, and how many requests
	// were in it. LatencySum is of all of them.
	Latency    []int64       `json:"latency,omitempty"`
	LatencySum time.Duration `json:"latency_sum_ns"`
}

// UpstreamBound is what a controller says of one upstream.
type UpstreamBound struct {
	Name string `json:"name"`
	// Rate is the requests a second, and InFlight the requests at a time, that all hot keys
	// with adaptive limits may send to the upstream together.
	Rate     float64 `json:"rate"`
	InFlight float64 `json:"in_flight_cap"`
	// Mean is the mean latency that is steered to. By it limiters know how many cold requests
	// should be in flight; more of them take places from hot ones.
	Mean float64 `json:"mean_seconds"`
	// Limited says that the upstream was once saturated; before, Rate is the maximum.
	Limited bool `json:"limited"`
	// Unreachable says that the target cannot be held even with the least rate.
	Unreachable bool `json:"unreachable"`
	// Why says in a few words what the last second was judged to be.
	Why string `json:"why"`
	// Latency is the quantile that was seen, Target what it has to be; 0: not known yet.
	Latency  float64 `json:"latency_seconds"`
	Target   float64 `json:"target_seconds"`
	Quantile float64 `json:"quantile"`
	// Errors is the share of failed requests, Flight how many were in flight.
	Errors float64 `json:"errors"`
	Flight float64 `json:"in_flight"`
	// Demand is what was asked for of hot keys, requests a second; limiters divide the cap
	// by their parts of it, or by Limiters where they have none.
	Demand   float64 `json:"demand"`
	Limiters int     `json:"limiters"`
	// Least and Most are the sums of min and max of the hot keys, by which Rate is divided.
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	// At is when it was judged.
	At time.Time `json:"at"`
}
