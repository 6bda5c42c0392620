package hottype

import "time"

// DefaultUpstream is the name of the upstream of rules that do not name an upstream.
const DefaultUpstream = "default"

// UpstreamLimit holds the bounds that a controller set for one upstream, and the measurements by which it set them.
type UpstreamLimit struct {
	Name string `json:"name" label:"upstream"`
	// Rate is the number of requests a second, and InFlightCap the number of requests at a time, that all hot keys with
	// adaptive limits may send to the upstream together.
	Rate        float64 `json:"rate" metric:"hotparam_upstream_rate" help:"Requests per second that all hot keys with adaptive limits together may send to the upstream."`
	InFlightCap float64 `json:"in_flight_cap" metric:"hotparam_upstream_in_flight_cap" help:"Maximum number of requests of hot keys with adaptive limits in flight at the upstream."`
	// TargetMeanSeconds is the mean latency to which the controller steers. Limiters derive from it the number of cold
	// requests that should be in flight; more of them take places from hot requests.
	TargetMeanSeconds float64 `json:"target_mean_seconds" metric:"hotparam_upstream_target_mean_seconds" help:"Mean time to the first byte that the controller aims at."`
	Saturated         bool    `json:"saturated" metric:"hotparam_upstream_saturated" help:"1 if the upstream has been saturated; until then the rate is the maximum."`
	Unreachable       bool    `json:"unreachable" metric:"hotparam_upstream_unreachable" help:"1 while the target cannot be met even at the minimum rate."`
	// Why describes in a few words how the controller judged the last second.
	Why string `json:"why" metric:"hotparam_upstream_reason" label:"reason" help:"Always 1; the label is the verdict on the last report."`
	// LatencySeconds is the measured quantile and TargetSeconds its upper bound; 0 means not known yet.
	LatencySeconds float64 `json:"latency_seconds" metric:"hotparam_upstream_latency_seconds" help:"Time to the first byte of a response, at the quantile of the target."`
	TargetSeconds  float64 `json:"target_seconds" metric:"hotparam_upstream_target_seconds" help:"Target for the time to the first byte of a response of the upstream."`
	Quantile       float64 `json:"quantile" metric:"hotparam_upstream_target_quantile" help:"Quantile of the target."`
	// Errors is the share of failed requests, and InFlight the mean number of requests in flight.
	Errors   float64 `json:"errors" metric:"hotparam_upstream_errors_ratio" help:"Share of requests that failed at the upstream."`
	InFlight float64 `json:"in_flight" metric:"hotparam_upstream_in_flight" help:"Mean number of requests in flight at the upstream during the last report."`
	// Demand is the number of requests a second for hot keys; limiters divide the cap by their parts of it, or by
	// Limiters if they have no part.
	Demand   float64   `json:"demand" metric:"hotparam_upstream_demand" help:"Requests per second for hot keys with adaptive limits, including denied ones."`
	Limiters int       `json:"limiters" metric:"hotparam_upstream_limiters" help:"Limiters whose reports were judged."`
	MinSum   float64   `json:"min_sum" metric:"hotparam_upstream_min_rate" help:"Sum of min of the hot keys."`
	MaxSum   float64   `json:"max_sum" metric:"hotparam_upstream_max_rate" help:"Sum of max of the hot keys."`
	At       time.Time `json:"at" metric:"hotparam_upstream_judged_timestamp_seconds" help:"Time at which the bounds of the upstream were last computed, in unix seconds."`
}
