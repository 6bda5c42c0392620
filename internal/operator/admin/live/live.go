// Package live shows the present: the hot keys, the decisions of the limiters, and the overrides in force.
//
//	Hot() ──────────┐                         ┌──> /v1/events ──> dashboard (one SSE stream a client)
//	Reports() ──────┼─> sample ──> snapshot ──┼──> /v1/hot, /v1/keys/{key}
//	Overrides.Live ─┘   (1, once a second)    └──> history
//	Publish(changes) ────────────────────────────> /v1/events, at once
//
// The invariant: everything that is shown at one time is from one sample, and no client delays the sampler, because a
// stream that does not accept its events is closed. Memory is bounded for any reports of limiters. The package changes
// nothing.
package live

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/past"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// Config holds the sources of a [Service]. Only Hot, Rules, Log and Now are needed. Other fields may be nil and are
// then shown as absent.
type Config struct {
	Namespace string
	Version   string

	// Hot returns the present hot keys, heaviest first, from the aggregator or the replica. It is called once a second
	// and for each request about a key.
	Hot func() []hottype.HotKey
	// HasEnded reports whether a key that has left Hot or Loops has ended, and has not just faded because its publisher
	// or the store is away. If it is nil, such keys have ended.
	HasEnded func(hottype.Key) bool
	// Loops returns the keys that would be hot if their requests did not come from one or a few clients, heaviest
	// first. If it is nil, loops are not shown.
	Loops func() []hottype.HotKey
	// Rules returns the rules in force now.
	Rules func() *rules.Set
	// CentralRules is true if the rules are from a central store, so that GET /v1/rules answers.
	CentralRules bool
	// Reports returns the counters of every limiter. Rates are differences between two reports of an instance. If it is
	// nil, rates are not shown.
	Reports func(context.Context) ([]report.Limiter, error)
	// Uses returns the use of each rule by the requests that this process has seen itself. It is nil if the process
	// sees no requests.
	Uses func(now time.Time) []report.RuleUse
	// Aggregators returns the reports of aggregators. If it is nil, aggregators are not known.
	Aggregators func(context.Context) ([]report.Aggregator, error)
	// OnDemand limits reads of reports and overrides to the time while someone is watching. In a fleet of limiters,
	// each with a page that reads the reports of all, the reads would grow with the square of their number. See
	// [Service.Watch].
	OnDemand bool
	// Upstreams returns the upstreams of adaptive limits, with their bounds. It is nil if there are no such limits.
	Upstreams func() []hottype.UpstreamLimit
	// Store names the source of reports and overrides, such as "Redis". It is "" for a disk.
	Store string
	// Overrides is the store of live overrides. If it is nil, overrides are in the rules file and cannot be changed.
	Overrides changes.OverrideStore
	// History is the store of the history. If it is nil, no history is kept.
	History past.Store
	// HistoryKeys is the number of keys of each kind that a second records in the history. 0 means 100.
	HistoryKeys int
	// Heaviest returns the keys with the greatest rates, hot or not. It is called several times a minute. If it is nil,
	// history and page have only keys that were hot.
	Heaviest func(n int) []hottype.HotKey
	// Full returns the rules whose hot sets are full, from the aggregator. If it is nil, they are found by counting
	// Hot.
	Full func() []hotset.Full
	// OnChange is called with every change that is shown, in order and never twice at once. It must not block.
	OnChange func(Change)
	// Pushed is true if the program passes changes of the hot set to Publish. Otherwise the sampler finds them by
	// comparing Hot with a second ago.
	Pushed bool
	// Status is called once a second and returns the status line of the dashboard.
	Status func() []Status

	// MaxStreams bounds the open event streams. 0 means 64.
	MaxStreams int
	// Log; nil discards.
	Log *slog.Logger
	// Now; nil means time.Now.
	Now func() time.Time
}

// WithDefaults returns the configuration with all its defaults.
func (c Config) WithDefaults() Config {
	c.MaxStreams, c.HistoryKeys = cmp.Or(c.MaxStreams, 64), cmp.Or(max(c.HistoryKeys, 0), 100)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnChange == nil {
		c.OnChange = func(Change) {}
	}
	return c
}

// Status is one item of the dashboard's status line, such as the age of the replica or the state of a breaker.
type Status struct {
	Name  string `json:"name"`  // "hot set"
	Value string `json:"value"` // "0.4 s old"
	OK    bool   `json:"ok"`
}

// Service samples and answers the routes. Build it with New; all methods are safe for concurrent use.
type Service struct {
	cfg                   Config
	hub                   *hub
	changes, sampleErrors atomic.Uint64

	reading      sync.Mutex   // for one read of the overrides at a time, in order
	samples      int          // number of samples; for Run alone
	watchedUntil atomic.Int64 // time until which someone is watching, Unix ns
	catalogs     changes.Catalogs

	mu                   sync.Mutex // guards the fields below
	rates                *rates
	recent               recent
	seconds              *seconds
	latest               latest
	knownHot, knownLoops map[string]listedKey
	sums                 map[hottype.Key]keySum
	overrides            overrideNotes
	aggregators          []report.Aggregator  // as last read; replaced, never changed
	otherRules           map[string]time.Time // by process: the time since which it has other rules
	useNotes             []rules.UseNote      // of the last sample; replaced, never changed
}

// Stats are counters since the start, and the present number of streams.
type Stats struct {
	Changes         uint64 `metric:"hotparam_admin_changes_total" help:"Changes in the feed: keys that became hot or cold, and overrides."`
	SampleErrors    uint64 `metric:"hotparam_admin_sample_errors_total" help:"Reports or overrides that could not be read."`
	Streams         int64  `metric:"hotparam_admin_streams" help:"Open event streams."`
	StreamsRejected uint64 `metric:"hotparam_admin_streams_rejected_total" help:"Event streams rejected because too many were open."`
	StreamsDropped  uint64 `metric:"hotparam_admin_streams_dropped_total" help:"Event streams closed because their client read too slowly."`
}

// New builds a Service of a Config with its defaults. It starts nothing.
func New(cfg Config) *Service {
	return &Service{
		cfg: cfg, hub: newHub(cfg.MaxStreams), rates: newRates(), seconds: newSeconds(),
		recent:   recent{points: []point{}, changes: []Change{}},
		knownHot: map[string]listedKey{}, knownLoops: map[string]listedKey{}, sums: map[hottype.Key]keySum{},
		latest: latest{state: newState(cfg.Now())},
	}
}

func (s *Service) Routes() []web.Route {
	return []web.Route{
		web.Get("/v1/hot", s.getHot),
		web.Get("/v1/keys/{key...}", s.getKey),
		web.Get("/v1/keys/{key}/seconds", s.getSeconds),
		web.Get("/v1/keys/{key}/what-if", s.getWhatIf),
		web.Get("/v1/key", s.getKey),
		web.Get("/v1/key/seconds", s.getSeconds),
		web.Get("/v1/key/what-if", s.getWhatIf),
		web.Get("/v1/client", s.getClient),
		web.Get("/v1/limiters", s.getLimiters),
		web.Get("/v1/clients", s.getClients),
		web.Get("/v1/clients/{client}", s.getClient),
		web.Get("/v1/upstreams", s.getUpstreams),
		web.Get("/v1/rules/running", s.getRunning),
		web.Get("/v1/events", s.getEvents),
	}
}

// hotKeys returns the hot keys, with whole keys in place of aliases that a limiter has reported.
func (s *Service) hotKeys() []hottype.HotKey { return s.withFullKeys(s.cfg.Hot()) }

// withFullKeys replaces the known aliases of a list. It does not change the list itself.
func (s *Service) withFullKeys(list []hottype.HotKey) []hottype.HotKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := false
	for i := range list {
		full, known := s.rates.full[list[i].Key]
		if !known {
			continue
		}
		if !copied {
			list, copied = slices.Clone(list), true
		}
		list[i].Key = full
	}
	return list
}

// FullKey returns the whole key for which an alias stands, as limiters report it. Other keys are returned unchanged.
func (s *Service) FullKey(key hottype.Key) hottype.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.rates.full[key], key)
}

// sampleEvery is the interval of the rates and of the state event.
const sampleEvery = time.Second

// heartbeatEvery is the interval at which a stream carries a comment, so that proxies and clients see that it is open
// even when sampling is slow.
const heartbeatEvery = 15 * time.Second

// Run samples once a second until ctx ends, then ends all event streams, so that http.Server.Shutdown need not wait for
// them. It returns nil, because failed reads are shown, logged once and tried again.
func (s *Service) Run(ctx context.Context) error {
	s.OpenStreams()
	defer s.hub.close()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	s.Sample(ctx, s.cfg.Now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.Sample(ctx, s.cfg.Now())
		case <-beat.C:
			s.hub.send([]byte(": still here\n\n"))
		}
	}
}

// OpenStreams lets clients open event streams. Run calls it.
func (s *Service) OpenStreams() { s.hub.open() }

// CloseStreams ends the open event streams. Their clients come back by themselves. Pass it to
// http.Server.RegisterOnShutdown if the server is shut down before Run's context ends.
func (s *Service) CloseStreams() { s.hub.endAll() }

// Publish sends to the streams at once the keys that became hot or cooled, and the loops that began or ended. It does
// not block. Pass it to the aggregator as OnChange.
func (s *Service) Publish(list []detect.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range list {
		c.Hot.Key = cmp.Or(s.rates.full[c.Hot.Key], c.Hot.Key)
		s.emitChange(detectionChange(c.At, detectionKinds[c.Kind], &c.Hot))
	}
}

// PublishSchedule sends to the streams that an override began or ended by its schedule. It does not block.
func (s *Service) PublishSchedule(o rules.Override, began bool, at time.Time) {
	c := Change{At: at, Kind: OverrideEnded, Key: o.Target().String(), Override: &o}
	if began {
		c.Kind = OverrideBegan
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emitChange(c)
}

// emitChange numbers, stores and sends a change. The caller holds mu, which keeps numbers and stream in one order.
func (s *Service) emitChange(c Change) {
	c.Seq = s.changes.Add(1)
	s.takeSums(&c)
	s.recent.changes = appendBounded(s.recent.changes, c, keepChanges)
	s.recordChange(&c)
	s.cfg.OnChange(c)
	s.hub.send(encodeEvent("change", c))
}

// Purged removes a key from memory once its history was purged, and records the author. The record does not name the
// key.
func (s *Service) Purged(key hottype.Key, author string) {
	s.mu.Lock()
	s.seconds.remove(key)
	s.recent.changes = slices.DeleteFunc(slices.Clone(s.recent.changes),
		func(c Change) bool { return c.Key == string(key) })
	s.mu.Unlock()
	s.recordChange(&Change{At: s.cfg.Now(), Kind: HistoryPurged, Author: author})
}

func (s *Service) Stats() Stats {
	st := s.hub.readStats()
	st.Changes, st.SampleErrors = s.changes.Load(), s.sampleErrors.Load()
	return st
}

// encodeEvent returns one server-sent event. JSON has no newline, so one data line is enough.
func encodeEvent(name string, v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		// The types of this package fail only for a number that JSON lacks. Then the page shows that the stream is
		// broken, and not an old state.
		body, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return []byte("event: " + name + "\ndata: " + string(body) + "\n\n")
}
