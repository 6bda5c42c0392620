package aggregate

import (
	"time"

	"github.com/hotparam/pipeline/internal/detection/detect"
)

// Stats are the counters of an Aggregator since it was built, and how it is
// right now.
type Stats struct {
	Detect  detect.Stats
	Batches uint64 `metric:"hotparam_aggregate_batches_total" help:"Batches of counts received."`
	Counts  uint64 `metric:"hotparam_aggregate_counts_total" help:"Counts received, each of one key and second."`
	// ErrorAlarms is how often the error of a rule's counts rose above a quarter
	// of its threshold: it has too few counters for what it gets.
	ErrorAlarms uint64 `metric:"hotparam_aggregate_error_alarms_total" help:"Times that the counts of a rule became too inexact: detect.counters is too small."`
	// IngestLag is now less the newest second that was accepted: under a
	// second when counts are current, 0 before the first.
	IngestLag time.Duration `metric:"hotparam_aggregate_ingest_lag_seconds" help:"Age of the newest second that has counts; under a second when counts are current."`

	// Blind says that counts cannot be heard, so that nothing cools and nothing
	// becomes hot.
	Blind bool `metric:"hotparam_aggregate_blind" help:"1 while this aggregator receives no counts: hot keys stay hot and no key becomes hot."`

	Published     uint64        `metric:"hotparam_aggregate_published_total" help:"Hot sets published."`
	Standby       bool          `metric:"hotparam_aggregate_standby" help:"1 while another aggregator with the same id publishes."`
	PublishErrors uint64        `metric:"hotparam_aggregate_publish_errors_total" help:"Publications of a hot set that failed."`
	Coalesced     uint64        `metric:"hotparam_aggregate_coalesced_total" help:"Hot sets that a newer one replaced before they were published."`
	PublishLast   time.Duration `metric:"hotparam_aggregate_publish_last_seconds" help:"Duration of the last publication."`
	PublishTotal  time.Duration `metric:"hotparam_aggregate_publish_seconds_total" help:"Duration of all publications together."`
	LastPublished time.Time     `metric:"hotparam_aggregate_last_published_timestamp_seconds" help:"When a hot set was last published, in unix seconds."`
}

// Stats gives the counters.
func (a *Aggregator) Stats() Stats {
	st := Stats{Batches: a.batches.Load(), Counts: a.counts.Load(), Detect: a.detector.Stats(),
		ErrorAlarms: a.alarm.raised.Load()}
	if st.Detect.Newest > 0 {
		st.IngestLag = max(0, a.cfg.Now().Sub(time.Unix(st.Detect.Newest, 0)))
	}
	st.Blind = a.hot.Load().NoInput
	p := a.out.published()
	st.Standby = p.standby
	st.Published, st.PublishErrors, st.Coalesced = p.ok, p.failed, p.coalesced
	st.PublishLast, st.PublishTotal, st.LastPublished = p.took, p.tookTotal, p.at
	return st
}

func (o *outbox) published() published {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stats
}
