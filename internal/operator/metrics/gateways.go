package metrics

import (
	"github.com/hotparam/pipeline/internal/serving/access"
	"github.com/hotparam/pipeline/internal/serving/check"
	"github.com/hotparam/pipeline/internal/serving/envoy"
	"github.com/hotparam/pipeline/internal/serving/spoe"
	"github.com/hotparam/pipeline/internal/transport/reversedns"
)

// Check gives the metrics of the endpoint /check.
func Check(stats func() check.Stats) Collector {
	return of(stats, func(to scrape, s check.Stats) {
		to.counter("hotparam_check_checks_total", "Requests that a gateway asked about.", s.Checks)
		to.counter("hotparam_check_denied_total", "Of these, denied.", s.Denied)
		to.counter("hotparam_check_repeated_total",
			"Of these, answered as an earlier check of the same request id and not charged.", s.Repeated)
		to.counter("hotparam_check_malformed_total",
			"Checks that describe no request in the dialect of the listener; they are refused.", s.Malformed)
		to.counter("hotparam_check_panics_total",
			"Requests allowed because deciding on them panicked; report it.", s.Panics)
	})
}

// CheckAccess gives the metrics of the token that gateways show at the endpoint /check.
func CheckAccess(stats func() access.GuardStats) Collector {
	return of(stats, func(to scrape, s access.GuardStats) {
		to.counter("hotparam_check_unauthorized_total", "Checks refused because the token was missing or wrong.",
			s.Wrong)
		to.counter("hotparam_check_slowed_total",
			"Checks refused unseen because their gateway had shown too many wrong tokens.", s.Slowed)
	})
}

// Crawlers gives the metrics of how clients are verified by DNS.
func Crawlers(stats func() reversedns.Stats) Collector {
	return of(stats, func(to scrape, s reversedns.Stats) {
		to.gauge("hotparam_crawlers_verified", "Addresses in memory that DNS has verified.", float64(s.Known))
		to.gauge("hotparam_crawlers_unverified", "Addresses in memory that are not verified.", float64(s.Unverified))
		to.counter("hotparam_crawlers_lookups_total", "Addresses looked up in DNS, both ways.", s.Lookups)
		to.counter("hotparam_crawlers_failures_total", "Of these, without an answer from DNS.", s.Failures)
		to.counter("hotparam_crawlers_dropped_total",
			"Look-ups dropped because too many were waiting; they are tried when the address comes again.", s.Dropped)
	})
}

// Envoy gives the metrics of the gRPC services for Envoy.
func Envoy(stats func() envoy.Stats) Collector {
	return of(stats, func(to scrape, s envoy.Stats) {
		to.counter("hotparam_envoy_checks_total", "Requests and descriptors that Envoy asked about.", s.Checks)
		to.counter("hotparam_envoy_denied_total", "Of these, denied.", s.Denied)
		to.counter("hotparam_envoy_malformed_total", "Calls of Envoy that describe no request.", s.Malformed)
		to.counter("hotparam_envoy_unauthorized_total", "Calls without the token.", s.Unauthorized)
		to.counter("hotparam_envoy_unsupported_total",
			"Descriptors that ask to give hits back, which is not done.", s.Unsupported)
		to.counter("hotparam_envoy_panics_total",
			"Requests allowed because deciding on them panicked; report it.", s.Panics)
	})
}

// SPOE gives the metrics of the agent for HAProxy.
func SPOE(stats func() spoe.Stats) Collector {
	return of(stats, func(to scrape, s spoe.Stats) {
		to.counter("hotparam_spoe_checks_total", "Requests that HAProxy asked about.", s.Checks)
		to.counter("hotparam_spoe_denied_total", "Of these, denied.", s.Denied)
		to.counter("hotparam_spoe_malformed_total",
			"Messages of HAProxy that describe no request; it passes without a verdict.", s.Malformed)
		to.counter("hotparam_spoe_broken_total",
			"Connections ended because their peer did not speak the protocol.", s.Broken)
		to.counter("hotparam_spoe_panics_total",
			"Requests allowed because deciding on them panicked; report it.", s.Panics)
	})
}
