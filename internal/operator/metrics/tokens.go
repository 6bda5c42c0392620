package metrics

import "github.com/hotparam/pipeline/internal/storage/redislimits"

// Refunds gives the metrics of charges that go back to Redis.
func Refunds(stats func() redislimits.RefundsStats) Collector {
	return of(stats, func(to scrape, s redislimits.RefundsStats) {
		to.counter("hotparam_redis_limits_refunded_total",
			"Cost given back to limits in Redis because of the status of an answer.", s.Refunded)
		to.counter("hotparam_redis_limits_refunded_lost_total",
			"Cost that should have been given back and stays charged: Redis did not answer, or the limit has changed.",
			s.Lost)
	})
}

// Prefetch gives the metrics of the tokens that a limiter takes ahead.
func Prefetch(stats func() redislimits.PrefetchStats) Collector {
	return of(stats, func(to scrape, s redislimits.PrefetchStats) {
		to.counter("hotparam_prefetch_grants_total", "Times that Redis granted tokens ahead.", s.Grants)
		to.counter("hotparam_prefetch_local_total", "Requests decided in memory with tokens taken ahead.", s.Local)
		to.counter("hotparam_prefetch_returned_total", "Tokens given back unused.", s.Returned)
		to.counter("hotparam_prefetch_lost_total",
			"Tokens neither used nor given back; their limit allows that much less.", s.Lost)
		to.gauge("hotparam_prefetch_held", "Tokens held now.", float64(s.Held))
		to.gauge("hotparam_prefetch_keys", "Keys for which tokens may be taken ahead.", float64(s.Keys))
	})
}
