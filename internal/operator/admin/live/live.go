// Package live shows the moment: what is hot, what the limiters decide, which overrides hold.
//
//	Hot() ──────────┐                         ┌──> /v1/events ──> dashboard (one SSE stream a client)
//	Reports() ──────┼─> sample ──> snapshot ──┼──> /v1/hot, /v1/keys/{key}
//	Overrides.List ─┘   (1, once a second)    └──> history
//	Publish(changes) ────────────────────────────> /v1/events, at once
//
// The invariant: all that is shown at one moment is of one sample, and no client delays the sampler: a stream that does
// not take its events is closed. Memory is bounded whatever limiters report. The package changes nothing.
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

// Config says what a [Service] shows. Only Hot, Rules, Log and Now are
// needed; what is nil is shown as absent.
type Config struct {
	Namespace string
	Version   string

	// Hot returns what is hot now, heaviest first, by the aggregator or by the
	// replica. Called once a second and for each question about a key.
	Hot func() []hottype.HotKey
	// HasEnded reports whether a key that has left Hot or Loops has ended, and has not just faded because its publisher
	// or the store is away; nil: it always has.
	HasEnded func(hottype.Key) bool
	// Loops returns the keys that would be hot were it not for one or a few
	// clients, heaviest first; nil: none are shown.
	Loops func() []hottype.HotKey
	// Rules returns the rules in force now.
	Rules func() *rules.Set
	// CentralRules says that they are from a central store: GET /v1/rules answers.
	CentralRules bool
	// Reports returns the counters of every limiter. Rates are differences per
	// instance between two reports. Nil: rates are not shown.
	Reports func(context.Context) ([]report.Limiter, error)
	// Uses returns what requests of each rule had that this process has seen itself; nil: it sees none.
	Uses func(now time.Time) []report.RuleUse
	// Aggregators returns what aggregators say of themselves; nil: nothing is known of them.
	Aggregators func(context.Context) ([]report.Aggregator, error)
	// OnDemand has reports and overrides read while someone looks alone: in a fleet of limiters, each with a page that
	// reads what all of them report, the reads grow with the square of their number. See [Service.Watch].
	OnDemand bool
	// Upstreams are those that adaptive limits follow, with their bounds; nil: none.
	Upstreams func() []hottype.UpstreamLimit
	// Store names what reports and overrides are read from, such as "Redis"; "": a disk.
	Store string
	// Overrides; nil: overrides are those of the rules file, and unchangeable.
	Overrides changes.OverrideStore
	// History; nil: nothing is kept of what was.
	History past.Store
	// HistoryKeys are how many keys of each kind a second records in the history; 0 means 100.
	HistoryKeys int
	// Heaviest returns the keys with the greatest rates, hot or not; nil: history and page know only
	// what was hot. Called some times a minute.
	Heaviest func(n int) []hottype.HotKey
	// Full returns the rules whose hot sets are full, by the aggregator; nil: they are found by counting Hot.
	Full func() []hotset.Full
	// OnChange is called with every change that is shown, in order and never twice at once: it must not block.
	OnChange func(Change)
	// Pushed says that the program hands changes of what is hot to Publish. Without
	// it the sampler finds them by comparing Hot with a second ago.
	Pushed bool
	// Status, called once a second, fills the dashboard's status line.
	Status func() []Status

	// MaxStreams bounds the open event streams; 0 means 64.
	MaxStreams int
	// Log; nil discards.
	Log *slog.Logger
	// Now; nil means time.Now.
	Now func() time.Time
}

// WithDefaults is the configuration with every field that has a default.
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

// Status is one thing that the dashboard's status line shows, such as the age
// of the replica or the state of a breaker.
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

	reading sync.Mutex   // one reading of the overrides at a time, in order
	samples int          // taken; for Run alone
	watched atomic.Int64 // until when someone looks, Unix ns

	mu                   sync.Mutex // guards the fields below
	rates                *rates
	recent               recent
	seconds              *seconds
	latest               latest
	knownHot, knownLoops map[string]hotNote
	overrides            overrideNotes
	aggregators          []report.Aggregator  // as last read; replaced, never changed
	otherRules           map[string]time.Time // since when a process has other rules, by its name
	notes                []rules.UseNote      // of the last sample; replaced, never changed
}

// Stats are counters since the start, and Streams as it is now.
type Stats struct {
	Changes         uint64 `metric:"hotparam_admin_changes_total" help:"Changes shown: keys that became hot or cooled, overrides."`
	SampleErrors    uint64 `metric:"hotparam_admin_sample_errors_total" help:"Reports or overrides that could not be read."`
	Streams         int64  `metric:"hotparam_admin_streams" help:"Event streams that are open."`
	StreamsRejected uint64 `metric:"hotparam_admin_streams_rejected_total" help:"Event streams rejected because too many were open."`
	StreamsDropped  uint64 `metric:"hotparam_admin_streams_dropped_total" help:"Event streams closed because their client did not read fast enough."`
}

// New builds a Service of a Config with its defaults. It starts nothing.
func New(cfg Config) *Service {
	return &Service{
		cfg: cfg, hub: newHub(cfg.MaxStreams), rates: newRates(), seconds: newSeconds(),
		recent:   recent{points: []point{}, changes: []Change{}},
		knownHot: map[string]hotNote{}, knownLoops: map[string]hotNote{},
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

// hot are the hot keys, by their whole text where the set has an alias and a limiter has reported what it stands for.
func (s *Service) hot() []hottype.HotKey { return s.named(s.cfg.Hot()) }

// named replaces the aliases in a list, if any are known. The list is not changed.
func (s *Service) named(list []hottype.HotKey) []hottype.HotKey {
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

// FullKey is the whole key that an alias stands for, as limiters report it; other keys are as they are.
func (s *Service) FullKey(key hottype.Key) hottype.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.rates.full[key], key)
}

// sampleEvery is the pace of the rates and of the state event.
const sampleEvery = time.Second

// heartbeatEvery is how often a stream carries a comment, so that proxies and
// clients see that it is open even when sampling is slow.
const heartbeatEvery = 15 * time.Second

// Run samples once a second until ctx ends, then ends all event streams, so
// that http.Server.Shutdown need not wait for them. It returns nil: what cannot
// be read is shown, logged once and tried again.
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

// CloseStreams ends the event streams that are open; their clients come back
// by themselves. Hand it to http.Server.RegisterOnShutdown where the server is
// shut down before Run's context ends.
func (s *Service) CloseStreams() { s.hub.drop() }

// Publish sends to the streams at once what became hot or cooled, what became
// a loop and ceased to be one. It does not block; hand it to the aggregator as OnChange.
func (s *Service) Publish(list []detect.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range list {
		c.Hot.Key = cmp.Or(s.rates.full[c.Hot.Key], c.Hot.Key)
		s.emit(detectionChange(c.At, detectionKinds[c.Kind], &c.Hot))
	}
}

// PublishSchedule sends to the streams that an override began to hold by its schedule,
// or ceased to. It does not block.
func (s *Service) PublishSchedule(o rules.Override, began bool, at time.Time) {
	c := Change{At: at, Kind: OverrideEnded, Key: o.Target().String(), Override: &o}
	if began {
		c.Kind = OverrideBegan
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emit(c)
}

// emit numbers a change, keeps it and sends it. The caller holds mu, which
// keeps numbers and stream in one order.
func (s *Service) emit(c Change) {
	c.Seq = s.changes.Add(1)
	s.recent.changes = appendBounded(s.recent.changes, c, keepChanges)
	s.recordChange(&c)
	s.cfg.OnChange(c)
	s.hub.send(event("change", c))
}

// Purged removes a key from memory once its history was purged, and records who did it. The record does not name the
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
	st := s.hub.stats()
	st.Changes, st.SampleErrors = s.changes.Load(), s.sampleErrors.Load()
	return st
}

// event writes one server-sent event. JSON holds no newline, so one data line
// is enough.
func event(name string, v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		// Our own types fail only by a number that JSON lacks; the page shows
		// that the stream is broken instead of an old state.
		body, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return []byte("event: " + name + "\ndata: " + string(body) + "\n\n")
}
