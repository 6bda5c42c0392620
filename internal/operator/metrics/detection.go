package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
)

// Aggregate gives the metrics of an aggregator.
func Aggregate(stats func() aggregate.Stats) Collector {
	return of(stats, func(to scrape, s aggregate.Stats) {
		to.detector(&s.Detect)
		to.counter("hotparam_aggregate_batches_total", "Batches of counts received.", s.Batches)
		to.counter("hotparam_aggregate_counts_total", "Counts received, each of one key and second.", s.Counts)
		to.counter("hotparam_aggregate_error_alarms_total",
			"Times that the counts of a rule became too inexact: detect.counters is too small.", s.ErrorAlarms)
		to.gauge("hotparam_aggregate_ingest_lag_seconds",
			"Age of the newest second that has counts; under a second when counts are current.", s.IngestLag.Seconds())
		to.flag("hotparam_aggregate_blind",
			"1 while no counts can be heard: hot keys stay hot and no key becomes hot.", s.Blind)
		to.flag("hotparam_aggregate_standby", "1 while another aggregator with the same id publishes.", s.Standby)
		to.counter("hotparam_aggregate_published_total", "Hot sets published.", s.Published)
		to.counter("hotparam_aggregate_publish_errors_total", "Publications of a hot set that failed.", s.PublishErrors)
		to.counter("hotparam_aggregate_coalesced_total",
			"Hot sets that a newer one replaced before they were published.", s.Coalesced)
		to.gauge("hotparam_aggregate_publish_last_seconds",
			"Duration of the last publication.", s.PublishLast.Seconds())
		to.send(prometheus.CounterValue, "hotparam_aggregate_publish_seconds_total",
			"Duration of all publications together.", s.PublishTotal.Seconds())
		to.gauge("hotparam_aggregate_last_published_timestamp_seconds",
			"When a hot set was last published, in unix seconds.", unixSeconds(s.LastPublished))
	})
}

// detector sends what the detector holds and what it dropped.
func (to scrape) detector(s *detect.Stats) {
	to.gauge("hotparam_aggregate_detect_keys", "Keys that are counted, over all rules.", float64(s.Keys))
	to.gauge("hotparam_aggregate_detect_candidates",
		"Keys over their threshold or still cooling.", float64(s.Candidates))
	to.gauge("hotparam_aggregate_detect_hot", "Keys that are hot.", float64(s.Hot))
	to.gauge("hotparam_aggregate_detect_loops",
		"Keys over their threshold because of one or a few clients.", float64(s.Loops))
	to.gauge("hotparam_aggregate_detect_client_sketches", "Keys whose clients are known.", float64(s.ClientSketches))
	to.gauge("hotparam_aggregate_detect_newest_timestamp_seconds", "Newest second that has counts, in unix seconds.",
		float64(s.Newest))
	to.gauge("hotparam_aggregate_detect_bytes", "Memory of counters and keys.", float64(s.Bytes))
	to.gauge("hotparam_aggregate_detect_error",
		"Most requests by which the count of a key over its window can be too low; 0: all are exact.", float64(s.Error))
	to.gauge("hotparam_aggregate_detect_error_ratio",
		"The same as a part of the rule's threshold, of the rule where it is greatest.", s.ErrorRatio)
	to.counter("hotparam_aggregate_detect_adds_total", "Counts accepted.", s.Adds)
	to.counter("hotparam_aggregate_detect_given_total",
		"Counters of rarely requested keys reused for other keys.", s.Given)
	to.counter("hotparam_aggregate_detect_dropped_late_total", "Counts of a second too long ago.", s.DroppedLate)
	to.counter("hotparam_aggregate_detect_dropped_future_total", "Counts of a second too far ahead.", s.DroppedFuture)
	to.counter("hotparam_aggregate_detect_dropped_full_total",
		"Counts of a key too long for the memory that there is.", s.DroppedFull)
	to.counter("hotparam_aggregate_detect_dropped_bad_total", "Counts with an impossible number.", s.DroppedBad)
	to.counter("hotparam_aggregate_detect_dropped_no_rule_total",
		"Counts of a resource that no rule has.", s.DroppedNoRule)
	to.counter("hotparam_aggregate_detect_dropped_client_sketches_total",
		"Keys whose clients could not be kept; these keys are judged by their rate alone.", s.DroppedClientSketches)
	to.counter("hotparam_aggregate_detect_pruned_total",
		"Keys over their threshold left out of the hot set because heavier ones fill it.", s.Pruned)
	to.counter("hotparam_aggregate_detect_displaced_total",
		"Keys pushed out of the hot set by heavier ones.", s.Displaced)
	to.counter("hotparam_aggregate_detect_clock_resets_total",
		"Times that this machine's clock stepped back by more than a window.", s.ClockResets)
}

// HotSet gives the metrics of the copy of the hot set in memory.
func HotSet(stats func(now time.Time) hotset.Stats) Collector {
	return collector(func(to scrape) {
		s := stats(time.Now())
		to.gauge("hotparam_hotset_keys", "Keys that are hot.", float64(s.Keys))
		to.gauge("hotparam_hotset_loops",
			"Keys over their threshold because of one or a few clients.", float64(s.Loops))
		to.gauge("hotparam_hotset_keys_kept",
			"Keys that are hot only because their aggregator fell silent.", float64(s.KeysKept))
		to.gauge("hotparam_hotset_publishers", "Aggregators that are heard.", float64(s.Publishers))
		to.gauge("hotparam_hotset_blind_publishers",
			"Aggregators that say that they get no counts.", float64(s.BlindPublishers))
		to.gauge("hotparam_hotset_silent_publishers",
			"Aggregators that are not heard any more and whose keys stay hot.", float64(s.SilentPublishers))
		to.gauge("hotparam_hotset_version", "Highest version of a hot set.", float64(s.Version))
		to.gauge("hotparam_hotset_age_seconds",
			"Age of the newest hot set, by the aggregator's clock; -1 before the first.", s.AgeSeconds)
		to.counter("hotparam_hotset_replaced_total", "Hot sets taken.", s.Replaced)
		to.counter("hotparam_hotset_ignored_total", "Hot sets ignored because a newer one was there.", s.Ignored)
		to.counter("hotparam_hotset_forgotten_total",
			"Aggregators forgotten: gone for too long, or too many.", s.Forgotten)
	})
}
