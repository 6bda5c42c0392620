package aggregate

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// Publisher publishes a hot set and assigns its version. It is called by one goroutine at a time and should return when
// ctx ends. It may keep set but not change it.
//
// An error with a method Standby() time.Duration reports that another process publishes in place of this process, and
// when to ask again.
type Publisher interface {
	Publish(ctx context.Context, set report.HotSet) error
}

// Config configures an Aggregator. Only Rules is required.
type Config struct {
	Rules   *rules.Set
	Publish Publisher // receives every hot set, if not nil
	// Tick is the interval at which keys are judged; default 100 ms, at most the refresh. A key that crosses its
	// threshold does not wait for it.
	Tick time.Duration
	// HotTTL is how long a set keeps its keys hot; default 5 s. Readers that receive no further set keep them longer,
	// by their own setting.
	HotTTL time.Duration
	// Counters, Shards, MaxRate, Lateness, Future, NoClients and WholeSeconds are passed to detect.Options.
	Counters, Shards int
	MaxRate          float64
	Lateness, Future time.Duration
	NoClients        bool
	WholeSeconds     bool
	// Sources reports on each source of counts, by name. Without sources, counts come from this process itself.
	Sources map[string]func() SourceStatus
	// NoInputTTL is how long no key cools because a source is silent; default [hotset.DefaultNoInputTTL]. With a
	// negative value keys cool at once.
	NoInputTTL time.Duration
	Now        func() time.Time // default time.Now
	// OnChange, if set, is called with the changes of the hot set, in order and by one goroutine at a time. It must not
	// block, because judging waits for it; publishing does not. It owns the slice.
	OnChange func([]detect.Change)
	Log      *slog.Logger // receives outages of the publisher; default: discards
}

// Times that are not configurable.
const (
	defaultTick    = 100 * time.Millisecond
	maxRefresh     = time.Second            // also the wait of a store that lost everything
	attemptTimeout = time.Second            // of one publication
	firstPause     = 50 * time.Millisecond  // after a failed publication
	maxPause       = 650 * time.Millisecond // times 1.5 at random: under one second
)

func (c Config) withDefaults() Config {
	c.HotTTL = cmp.Or(max(c.HotTTL, 0), detect.DefaultHotTTL)
	c.Tick = min(cmp.Or(max(c.Tick, 0), defaultTick), c.refreshInterval())
	c.NoInputTTL = cmp.Or(c.NoInputTTL, hotset.DefaultNoInputTTL)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnChange == nil {
		c.OnChange = func([]detect.Change) {}
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// refreshInterval returns the longest time between two publications.
func (c Config) refreshInterval() time.Duration {
	return max(min(c.HotTTL/4, maxRefresh), time.Millisecond)
}

// Stats holds the counters of an Aggregator since it was built, and its current state.
type Stats struct {
	Detect      detect.Stats
	Batches     uint64        `metric:"hotparam_aggregate_batches_total" help:"Batches of counts received."`
	Counts      uint64        `metric:"hotparam_aggregate_counts_total" help:"Counts received, each of one key and second."`
	ErrorAlarms uint64        `metric:"hotparam_aggregate_error_alarms_total" help:"Times that the counts of a rule became too inexact: detect.counters is too small."`
	IngestLag   time.Duration `metric:"hotparam_aggregate_ingest_lag_seconds" help:"Age of the newest second with counts; less than a second if counts are current."`

	NoInput bool `metric:"hotparam_aggregate_no_input" help:"1 while this aggregator receives no counts: hot keys stay hot and no key becomes hot."`

	Publications
}

// Publications counts the publications of hot sets, and describes the last one.
type Publications struct {
	Published     uint64        `metric:"hotparam_aggregate_published_total" help:"Hot sets published."`
	Standby       bool          `metric:"hotparam_aggregate_standby" help:"1 while another aggregator with the same id publishes."`
	PublishErrors uint64        `metric:"hotparam_aggregate_publish_errors_total" help:"Publications of a hot set that failed."`
	Coalesced     uint64        `metric:"hotparam_aggregate_coalesced_total" help:"Hot sets that a newer one replaced before they were published."`
	PublishLast   time.Duration `metric:"hotparam_aggregate_publish_last_seconds" help:"Duration of the last publication."`
	PublishTotal  time.Duration `metric:"hotparam_aggregate_publish_seconds_total" help:"Duration of all publications together."`
	LastPublished time.Time     `metric:"hotparam_aggregate_last_published_timestamp_seconds" help:"Time at which a hot set was last published, in unix seconds."`
}

func (a *Aggregator) Stats() Stats {
	st := Stats{Batches: a.batches.Load(), Counts: a.counts.Load(), Detect: a.detector.Stats(),
		ErrorAlarms: a.alarm.raised.Load()}
	if st.Detect.Newest > 0 {
		st.IngestLag = max(0, a.cfg.Now().Sub(time.Unix(st.Detect.Newest, 0)))
	}
	st.NoInput = a.hot.Load().NoInput
	st.Publications, _ = a.out.publicationStats()
	return st
}

func (o *outbox) publicationStats() (stats Publications, failure string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stats, o.failure
}
