package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/serving/access"
	"github.com/hotparam/pipeline/internal/serving/decisionapi"
	"github.com/hotparam/pipeline/internal/serving/proxy"
	"github.com/hotparam/pipeline/internal/serving/respcache"
	"github.com/hotparam/pipeline/internal/storage/redisfeed"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
	"github.com/hotparam/pipeline/internal/storage/redisstore"
)

// Gate gives the metrics of the decisions.
func Gate(stats func() gate.Stats) Collector {
	return of(stats, func(to scrape, s gate.Stats) {
		to.admissions(&s)
		to.denials("hotparam_gate_denied_total", "Requests that this limiter denied, by reason.", &s.Denied)
		to.counter("hotparam_gate_spared_total",
			"Requests denied without a call to the store, because it had just said until when it denies.", s.Spared)
		to.gateStore(&s)
		to.counter("hotparam_gate_candidates_same_total",
			"Requests on which a candidate limit and the live one agreed.", s.Candidates.Same)
		to.counter("hotparam_gate_candidates_stricter_total",
			"Requests that only the candidate limit would have denied.", s.Candidates.Stricter)
		to.counter("hotparam_gate_candidates_looser_total",
			"Requests that only the live limit denied.", s.Candidates.Looser)
	})
}

func (to scrape) admissions(s *gate.Stats) {
	for r, n := range s.Allowed.All() {
		to.with("reason", r.String()).counter("hotparam_gate_allowed_total",
			"Requests that this limiter allowed, by reason.", n)
	}
	to.counter("hotparam_gate_held_back_total", "Requests allowed that have to wait before they go on.", s.HeldBack)
	to.counter("hotparam_gate_shadowed_total",
		"Requests allowed that a limit in shadow mode would have denied.", s.Shadowed)
	to.counter("hotparam_gate_shadowed_ip_total",
		"Requests allowed that a window of their client in shadow mode would have denied.", s.ShadowedIP)
}

// denials sends a counter of the requests denied, by reason.
func (to scrape) denials(name, help string, d *hottype.Denials) {
	for r, n := range d.All() {
		to.with("reason", r.String()).counter(name, help, n)
	}
}

// gateStore sends how the shared store does.
func (to scrape) gateStore(s *gate.Stats) {
	to.counter("hotparam_gate_store_calls_total", "Calls to the shared store.", s.StoreCalls)
	to.counter("hotparam_gate_store_errors_total",
		"Calls to the shared store that failed or took too long.", s.StoreErrors)
	to.counter("hotparam_gate_store_refused_total",
		"Calls to the shared store that an open circuit breaker prevented.", s.StoreRefused)
	to.counter("hotparam_gate_store_opened_total",
		"Times that a circuit breaker opened: outages that began.", s.StoreOpened)
	to.counter("hotparam_gate_store_closed_total",
		"Times that a circuit breaker closed: outages that ended.", s.StoreClosed)
	to.flag("hotparam_gate_store_open",
		"1 while any circuit breaker is open: limits are local, or by the failure policy.", s.StoreOpen)
	to.gauge("hotparam_gate_store_parts",
		"Circuit breakers: one, or on a Redis cluster one for each master seen to fail.", float64(s.StoreParts))
	to.gauge("hotparam_gate_store_out", "Circuit breakers that are open.", float64(s.StoreOut))
	to.latency("hotparam_gate_store_latency_seconds", "Duration of calls to the shared store.", &s.StoreLatency)
	to.counter("hotparam_gate_refunded_total", "Cost given back because of the status of an answer.", s.Refunded)
	to.counter("hotparam_gate_local_errors_total", "Failures of the limits in memory; always 0.", s.LocalErrors)
}

func (to scrape) latency(name, help string, l *gate.Latency) {
	cumulative, count := make(map[float64]uint64, len(l.Bounds)), uint64(0)
	for i, n := range l.Counts {
		count += n
		if i < len(l.Bounds) && l.Bounds[i] > 0 { // without a store there are no bounds
			cumulative[l.Bounds[i].Seconds()] = count
		}
	}
	if len(cumulative) > 0 {
		desc := prometheus.NewDesc(name, help, nil, nil)
		to.to <- prometheus.MustNewConstHistogram(desc, count, l.Sum.Seconds(), cumulative)
	}
}

// Proxy gives the metrics of the reverse proxy.
func Proxy(stats func() proxy.Stats) Collector {
	return of(stats, func(to scrape, s proxy.Stats) {
		to.counter("hotparam_proxy_denied_total", "Requests denied.", s.Denied)
		to.counter("hotparam_proxy_panics_total",
			"Requests allowed because deciding on them panicked; report it.", s.Panics)
		to.counter("hotparam_proxy_unrouted_total",
			"Requests sent to the default upstream because the one of their rule does not exist.", s.Unrouted)
		to.counter("hotparam_proxy_refused_total",
			"Requests refused because no server should accept their target.", s.Refused)
		to.counter("hotparam_proxy_dropped_fields_total",
			"Header fields removed because their name has an underscore.", s.DroppedFields)
		each(to, "upstream", s.Upstreams, func(to scrape, u proxy.UpstreamStats) {
			to.counter("hotparam_proxy_upstreams_requests_total", "Requests forwarded to this upstream.", u.Requests)
			to.counter("hotparam_proxy_upstreams_failures_total",
				"Requests that this upstream did not answer.", u.Failures)
			to.counter("hotparam_proxy_upstreams_abandoned_total",
				"Requests whose client left before this upstream answered.", u.Abandoned)
		})
	})
}

// ResponseCache gives the metrics of a response cache.
func ResponseCache(stats func() respcache.Stats) Collector {
	return of(stats, func(to scrape, s respcache.Stats) {
		to.counter("hotparam_cache_hits_total", "Requests answered with a fresh answer from the cache.", s.Hits)
		to.counter("hotparam_cache_stale_total", "Requests answered with a stale answer from the cache.", s.Stale)
		to.counter("hotparam_cache_fetches_total", "Requests that the cache made for answers that it may keep.",
			s.Fetched)
		to.counter("hotparam_cache_failed_fetches_total", "Of these, those that were not answered well.", s.Failed)
		to.counter("hotparam_cache_refused_fetches_total",
			"Requests that the cache did not make because the limits of the key refused them.", s.Refused)
		to.counter("hotparam_cache_collapsed_total", "Times that a request waited for the answer to another one.",
			s.Collapsed)
		to.counter("hotparam_cache_timeouts_total",
			"Requests refused because they waited too long and nothing stale was left.", s.TimedOut)
		each(to, "reason", s.Bypassed, func(to scrape, n uint64) {
			to.counter("hotparam_cache_bypassed_total", "Requests that passed by the cache, by reason.", n)
		})
		each(to, "reason", s.Unkept, func(to scrape, n uint64) {
			to.counter("hotparam_cache_unkept_total", "Answers that the cache did not keep, by reason.", n)
		})
		to.counter("hotparam_cache_evicted_total", "Entries that gave way to others.", s.Evicted)
		to.counter("hotparam_cache_purged_total", "Entries that a person removed.", s.Purged)
		to.gauge("hotparam_cache_entries", "Entries now.", float64(s.Entries))
		to.gauge("hotparam_cache_bytes", "Bytes of all entries now.", float64(s.Bytes))
	})
}

// DecisionAPI gives the metrics of the questions that other servers ask.
func DecisionAPI(stats func() decisionapi.Stats) Collector {
	return of(stats, func(to scrape, s decisionapi.Stats) {
		to.counter("hotparam_decision_api_checks_total", "Requests decided for other servers.", s.Checks)
		to.counter("hotparam_decision_api_denied_total", "Requests denied for other servers.", s.Denied)
		to.counter("hotparam_decision_api_rejected_total", "Questions of other servers that cannot be read.",
			s.Rejected)
		to.counter("hotparam_decision_api_panics_total",
			"Requests allowed because deciding on them panicked; report it.", s.Panics)
	})
}

// RedisServer is whether Redis can be used for what programs write.
func RedisServer(stats func() redisstore.Stats) Collector {
	return collector(func(to scrape) {
		to.flag("hotparam_redis_read_only", "1 while Redis refuses writes, as a read-only replica does.",
			stats().ReadOnly)
	})
}

// DecisionAccess gives the metrics of the token that other servers show.
func DecisionAccess(stats func() access.GuardStats) Collector {
	return of(stats, func(to scrape, s access.GuardStats) {
		to.counter("hotparam_decision_api_unauthorized_total",
			"Questions refused because the token was missing or wrong.", s.Wrong)
		to.counter("hotparam_decision_api_slowed_total",
			"Questions refused unseen because their client had shown too many wrong tokens.", s.Slowed)
	})
}

// RedisFeed gives the metrics of the hot set, overrides and reports in Redis.
func RedisFeed(stats func() redisfeed.Stats) Collector {
	return of(stats, func(to scrape, s redisfeed.Stats) {
		to.follower("hotparam_redis_hot", "hot set", &s.Hot)
		to.follower("hotparam_redis_overrides", "overrides", &s.Overrides)
		to.follower("hotparam_redis_commands", "commands", &s.Commands)
		to.publications(&s)
		to.counter("hotparam_redis_report_errors_total",
			"Reports of this limiter that could not be written.", s.ReportErrors)
		to.counter("hotparam_redis_report_keys_cut_total",
			"Keys left out of reports that had too many.", s.ReportKeysCut)
		to.counter("hotparam_redis_reports_malformed_total",
			"Stored reports that cannot be read, each time one is met.", s.ReportsMalformed)
		to.counter("hotparam_redis_overrides_lost_total",
			"Times that Redis was found with older overrides than those in force here.", s.OverridesLost)
		to.counter("hotparam_redis_overrides_restored_total",
			"Times that this process wrote the overrides in force back to Redis.", s.OverridesRestored)
		to.flag("hotparam_redis_overrides_behind",
			"1 while Redis has older overrides than are in force here, and this process may not write.",
			s.OverridesBehind)
		to.flag("hotparam_redis_overrides_copy_failing",
			"1 while the copy of the overrides on disk cannot be written.", s.CopyFailing)
		to.counter("hotparam_redis_override_entries_malformed_total",
			"Stored overrides that cannot be read, each time one is met.", s.OverridesMalformed)
	})
}

// follower sends how well the copy of something in Redis keeps up.
func (to scrape) follower(prefix, what string, s *redisfeed.FollowStats) {
	counter := func(name, help string, n uint64) { to.counter(prefix+name, help+" ("+what+").", n) }
	counter("_syncs_total", "Reads that succeeded", s.Syncs)
	counter("_errors_total", "Reads that failed", s.Errors)
	counter("_notices_total", "Notices of a change received", s.Notices)
	counter("_healed_total", "Changes found by polling because no notice told of them", s.Healed)
	counter("_reconnects_total", "Times that the subscription to notices was renewed", s.Reconnects)
	counter("_malformed_total", "Stored sets that cannot be read", s.Malformed)
	counter("_bytes_total", "Bytes of sets and changes read", s.Bytes)
	counter("_whole_total", "Sets read whole and not as changes", s.Whole)
	counter("_gaps_total", "Sets for which changes were missing", s.Gaps)
	to.gauge(prefix+"_age_seconds",
		"Time since the last read that succeeded; -1 before the first ("+what+").", s.AgeSeconds)
}

// RedisLimits gives the metrics of the limits that limiters share by Redis.
func RedisLimits(stats func() redislimits.Stats) Collector {
	return of(stats, func(to scrape, s redislimits.Stats) {
		to.counter("hotparam_redis_limits_calls_total", "Calls to Redis with decisions.", s.Calls)
		to.counter("hotparam_redis_limits_decisions_total", "Decisions in these calls.", s.Decisions)
		to.counter("hotparam_redis_limits_merged_total", "Decisions answered by an equal one of the same call.",
			s.Merged)
		to.gauge("hotparam_redis_limits_largest_call", "Most decisions that one call carried.", float64(s.Largest))
		to.counter("hotparam_redis_limits_refused_total", "Decisions refused because too many were waiting.", s.Refused)
		to.counter("hotparam_redis_limits_left_total", "Decisions whose caller left before the answer.", s.Left)
		to.counter("hotparam_redis_limits_refunds_total",
			"Charges given back because another node of the cluster denied the request.", s.Refunds)
		to.counter("hotparam_redis_limits_refunds_lost_total",
			"Charges to be given back of which nothing was heard.", s.RefundsLost)
	})
}

// publications sends what an aggregator wrote to Redis.
func (to scrape) publications(s *redisfeed.Stats) {
	to.counter("hotparam_redis_published_total", "Hot sets written to Redis.", s.Published)
	to.counter("hotparam_redis_published_whole_total", "Hot sets written whole and not as changes.", s.PublishedWhole)
	to.counter("hotparam_redis_published_bytes_total", "Bytes of hot sets and changes written.", s.PublishedBytes)
	to.counter("hotparam_redis_publish_errors_total", "Writes of a hot set that failed.", s.PublishErrors)
	to.flag("hotparam_redis_publishing", "1 while this aggregator is the active one of its id.", s.Publishing)
	to.counter("hotparam_redis_takeovers_total",
		"Times that this aggregator became the active one of its id.", s.Takeovers)
	to.counter("hotparam_redis_fenced_total",
		"Hot sets that Redis refused because another aggregator is active or a newer set is there.", s.Fenced)
}

// Windows gives the metrics of the per-client windows that limiters share by Redis.
func Windows(stats func() redislimits.WindowsStats) Collector {
	return of(stats, func(to scrape, s redislimits.WindowsStats) {
		to.counter("hotparam_windows_exchanges_total", "Exchanges of sums with Redis, for each shard.", s.Exchanges)
		to.counter("hotparam_windows_errors_total",
			"Exchanges of sums that failed; clients are held to local counts.", s.Errors)
		to.counter("hotparam_windows_sums_total", "Sums sent, each of one client and window.", s.Sums)
		to.counter("hotparam_windows_refused_total",
			"Sums that Redis did not take: their key holds something else or is full.", s.Refused)
		to.counter("hotparam_windows_untracked_total",
			"Requests allowed whose client had no place in memory; other limiters do not hear of them.", s.Untracked)
		to.gauge("hotparam_windows_subjects", "Clients whose sums are kept.", float64(s.Subjects))
		to.gauge("hotparam_windows_stale", "Shards whose last exchange failed.", float64(s.Stale))
		to.gauge("hotparam_windows_last_seconds", "Duration of the last exchange.", s.Last.Seconds())
	})
}
