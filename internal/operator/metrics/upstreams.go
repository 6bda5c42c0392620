package metrics

import "github.com/hotparam/pipeline/hotparam/hottype"

// Upstreams gives the metrics of the upstreams that adaptive limits follow.
func Upstreams(bounds func() []hottype.UpstreamBound) Collector {
	return collector(func(to scrape) {
		for _, b := range bounds() {
			to := to.with("upstream", b.Name)
			gauge := func(name, help string, value float64) { to.gauge("hotparam_upstream_"+name, help, value) }
			gauge("rate", "Requests a second that all hot keys with adaptive limits may send to the upstream together.",
				b.Rate)
			gauge("in_flight_cap", "Requests of these keys that may be in flight at the upstream at a time.",
				b.InFlight)
			gauge("in_flight", "Requests that waited for an answer of the upstream, on average over the last report.",
				b.Flight)
			gauge("latency_seconds", "Time to the first byte of an answer, at the quantile of the target.", b.Latency)
			gauge("mean_seconds", "The mean time that is steered to.", b.Mean)
			gauge("target_seconds", "What that time is to stay below.", b.Target)
			gauge("errors_ratio", "Share of the requests that the upstream failed.", b.Errors)
			gauge("target_quantile", "The quantile of the target.", b.Quantile)
			gauge("demand", "Requests a second for hot keys with adaptive limits, refused ones included.", b.Demand)
			gauge("limiters", "Limiters whose reports were judged.", float64(b.Limiters))
			gauge("min_rate", "Sum of min of the hot keys.", b.Least)
			gauge("max_rate", "Sum of max of the hot keys.", b.Most)
			gauge("judged_timestamp_seconds", "When that was judged, in unix seconds.", unixSeconds(b.At))
			to.flag("hotparam_upstream_limited",
				"1 if the upstream was once saturated; before, the rate is the maximum.", b.Limited)
			to.flag("hotparam_upstream_unreachable", "1 while the target cannot be held even with the least rate.",
				b.Unreachable)
			to.with("why", b.Why).gauge("hotparam_upstream_why",
				"Always 1; the label says what the last report was judged to be.", 1)
		}
	})
}
