package metrics

import (
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/notify"
	"github.com/hotparam/pipeline/internal/serving/listener"
	"github.com/hotparam/pipeline/internal/storage/historystore"
)

// Overview gives the metrics of what the admin server sees, over all limiters.
func Overview(read func() admin.Overview) Collector {
	return of(read, func(to scrape, o admin.Overview) {
		to.counter("hotparam_allowed_total",
			"Requests that all limiters allowed since this process started.", o.Allowed)
		to.denials("hotparam_denied_total",
			"Requests that all limiters denied since this process started, by reason.", &o.Denied)
		to.gauge("hotparam_limiters", "Limiters that reported within the last 5 seconds.", float64(o.Limiters))
		to.gauge("hotparam_hot_keys", "Keys that are hot.", float64(o.HotKeys))
		to.gauge("hotparam_loops",
			"Keys over their threshold because of one or a few clients; not hot, not limited.", float64(o.Loops))
		each(to, "rule", o.Rules, func(to scrape, r admin.RuleOverview) {
			to.gauge("hotparam_rule_hot_keys", "Keys that are hot, by rule.", float64(r.HotKeys))
			to.gauge("hotparam_rule_hot_rate", "Requests per second of a rule's hot keys together.", r.HotRate)
		})
	})
}

// HotKeys gives a metric with keys as labels. Clients choose the keys: every key that was ever hot stays a
// time series in Prometheus, so a program has this part only if it is asked for.
func HotKeys(hottest func() []hottype.Hot) Collector {
	return collector(func(to scrape) {
		for _, h := range hottest() {
			to.with("key", string(h.Key)).with("rule", h.Rule).gauge("hotparam_hot_key_rate",
				"Requests per second of the 100 hottest keys.", h.Rate)
		}
	})
}

// Admin gives the metrics of the admin server itself.
func Admin(stats func() admin.Stats) Collector {
	return of(stats, func(to scrape, s admin.Stats) {
		to.counter("hotparam_admin_requests_total", "Requests to the admin server.", s.Requests)
		to.counter("hotparam_admin_unauthorized_total",
			"Requests refused because the token was missing or wrong.", s.Unauthorized)
		to.counter("hotparam_admin_slowed_total",
			"Requests refused unseen because their client had shown too many wrong tokens.", s.Slowed)
		to.counter("hotparam_admin_foreign_hosts_total",
			"Requests refused because of the name in their Host header.", s.ForeignHosts)
		to.counter("hotparam_admin_changes_total",
			"Changes shown: keys that became hot or cooled, overrides.", s.Changes)
		to.counter("hotparam_admin_sample_errors_total", "Reports or overrides that could not be read.", s.SampleErrors)
		to.gauge("hotparam_admin_streams", "Event streams that are open.", float64(s.Streams))
		to.counter("hotparam_admin_streams_refused_total",
			"Event streams refused because too many were open.", s.StreamsRefused)
		to.counter("hotparam_admin_streams_dropped_total",
			"Event streams closed because their client did not read fast enough.", s.StreamsDropped)
	})
}

// Listeners gives the metrics of the HTTP listeners, by name.
func Listeners(stats func() map[string]listener.Stats) Collector {
	return collector(func(to scrape) {
		each(to, "listener", stats(), func(to scrape, l listener.Stats) {
			to.gauge("hotparam_listener_open", "Connections that are open.", float64(l.Open))
			to.counter("hotparam_listener_refused_total",
				"Connections refused because all were taken by requests under way.", l.Refused)
			to.counter("hotparam_listener_evicted_total",
				"Idle connections closed to make room for new ones.", l.Evicted)
			to.counter("hotparam_listener_slow_total", "Requests whose body came too slowly.", l.Slow)
			to.counter("hotparam_listener_prefaces_total",
				"HTTP/2 prefaces where none belongs; answered 505.", l.Prefaces)
			to.counter("hotparam_listener_no_proxy_header_total",
				"Connections of trusted proxies ended because they did not begin with a PROXY header.", l.NoHeader)
			if c := l.Certificate; c != nil {
				to.flag("hotparam_listener_certificate_right",
					"1; 0 while the files changed and cannot be used, and the certificate from before goes on.",
					c.Right)
				to.gauge("hotparam_listener_certificate_expires_timestamp_seconds",
					"When the certificate in use expires, in unix seconds.", unixSeconds(c.Expires))
			}
		})
	})
}

// ReloadStats tells how the last reload of the configuration ended. The start counts
// as one.
type ReloadStats struct {
	Success   bool
	Timestamp int64 // when a configuration was last taken, in unix seconds
	// Hash is what a fleet must have in common: the first 48 bits of the SHA-256 of
	// the file in force, 0 without one.
	Hash int64
}

// Reload gives the metrics of the reloads.
func Reload(stats func() ReloadStats) Collector {
	return of(stats, func(to scrape, s ReloadStats) {
		to.flag("hotparam_config_reload_success",
			"1; 0 while the last change of the configuration is refused and the rules from before it hold.", s.Success)
		to.gauge("hotparam_config_reload_timestamp_seconds",
			"When a configuration was last taken, in unix seconds.", float64(s.Timestamp))
		to.gauge("hotparam_config_reload_hash",
			"Number made of the configuration file in force, the same for the same bytes; 0: no file.", float64(s.Hash))
	})
}

// RulesStats tells how well a program follows its central store of rules.
type RulesStats struct {
	// Version is that of the rules in force, 0 where they are those of a file; Stored the one that the
	// store held last.
	Version, Stored int64
	// Refused says that the program does not take what the store holds, Behind that the store has
	// lost what is in force.
	Refused, Behind bool
	// StoreFailing says that the last look found no rules, CopyFailing that no copy of them is kept.
	StoreFailing, CopyFailing bool
}

// Rules gives the metrics of a central store of rules.
func Rules(stats func() RulesStats) Collector {
	return of(stats, func(to scrape, s RulesStats) {
		to.gauge("hotparam_rules_version",
			"Version of the rules in force, by the central store; 0: they are those of a file.", float64(s.Version))
		to.gauge("hotparam_rules_stored_version", "Version that the central store of rules held last.",
			float64(s.Stored))
		to.flag("hotparam_rules_refused",
			"1 while rules in the central store are refused and those from before them hold.", s.Refused)
		to.flag("hotparam_rules_behind", "1 while the central store has lost the rules that are in force.", s.Behind)
		to.flag("hotparam_rules_store_failing", "1 while the central store of rules does not answer or holds none.",
			s.StoreFailing)
		to.flag("hotparam_rules_copy_failing", "1 while no copy of the central rules is kept on disk.", s.CopyFailing)
	})
}

// Notifications gives the metrics of the webhooks that are told what happens, by name.
func Notifications(stats func() notify.Stats) Collector {
	return of(stats, func(to scrape, s notify.Stats) {
		to.counter("hotparam_notify_not_leading_total",
			"Events that were left to the aggregator that tells them.", s.NotLeading)
		each(to, "webhook", s.Webhooks, func(to scrape, w notify.WebhookStats) {
			to.counter("hotparam_notify_sent_total", "Events that a webhook has taken.", w.Sent)
			to.counter("hotparam_notify_failed_total", "Events that were given up after the last attempt.", w.Failed)
			to.counter("hotparam_notify_dropped_total",
				"Events dropped because the queue was full or the program stopped.", w.Dropped)
			to.counter("hotparam_notify_retries_total", "Attempts to tell a webhook after a failed one.", w.Retries)
			to.gauge("hotparam_notify_queue", "Events that wait for a webhook.", float64(w.Queued))
			to.flag("hotparam_notify_failing", "1 while the last attempt to tell a webhook failed.", w.Failing)
			to.gauge("hotparam_notify_last_attempt_timestamp_seconds",
				"When a webhook was last told something, or tried to, in unix seconds.", unixSeconds(w.At))
		})
	})
}

// History gives the metrics of the history of a program.
func History(stats func() historystore.Stats) Collector {
	return of(stats, func(to scrape, s historystore.Stats) {
		to.counter("hotparam_history_written_total", "Minutes and events written to the history.", s.Written)
		to.counter("hotparam_history_dropped_total",
			"Minutes and events that could not be written, or came faster than the disk.", s.Dropped)
		to.counter("hotparam_history_failures_total", "Writes and openings of the history that failed.", s.Failures)
		to.counter("hotparam_history_set_aside_total", "Damaged files of the history that were set aside.", s.SetAside)
		to.gauge("hotparam_history_bytes", "Bytes of the history's file that are in use.", float64(s.Bytes))
		to.flag("hotparam_history_failing", "1 while the history is not written.", s.Failing)
	})
}
