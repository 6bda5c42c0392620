package live

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// maxShown is the number of hot keys and of overrides in the stream. /v1/hot and /v1/overrides have all of them.
const maxShown = 100

// readTimeout bounds each read of reports and of overrides, so that a slow store does not stop the clock of the page.
const readTimeout = 400 * time.Millisecond

// unwatchedEvery is the number of samples after which the overrides are read again while no one is watching, so that
// the page has recent ones if it is opened while the store is away.
const unwatchedEvery = 60

func (s *Service) Sample(ctx context.Context, now time.Time) {
	watched := s.isWatched(now)
	if watched {
		s.readReports(ctx, now)
	}
	if watched || s.samples%unwatchedEvery == 0 {
		s.ReadOverrides(ctx)
	}
	set, aliasedLoops, heaviest := s.cfg.Hot(), s.aliasedLoops(), s.heaviestKeys()
	s.samples++
	hot, loops := s.withFullKeys(set), s.withFullKeys(aliasedLoops)
	if heaviest != nil {
		near := closestKeys(s.cfg.Rules(), heaviest, hot, loops)
		s.mu.Lock()
		s.latest.closest = near
		s.mu.Unlock()
	}
	ranked := rankKeys(s.cfg.Rules(), hot)
	st := s.buildState(now, hot, ranked[:min(len(ranked), keepKeys)], rankKeys(s.cfg.Rules(), loops))
	st.Loops = st.Loops[:min(len(st.Loops), maxShown)]

	s.mu.Lock()
	defer s.mu.Unlock()
	s.addSums(now, hot, loops)
	if !s.cfg.Pushed {
		s.knownHot = s.emitListChanges(now, set, s.knownHot, BecameHot, Cooled)
		s.knownLoops = s.emitListChanges(now, aliasedLoops, s.knownLoops, BecameLoop, CeasedLoop)
	}
	s.recordSecond(now, hot, loops, heaviest)
	s.addKeySeconds(now, st.Hot, loops)
	st.Hot = st.Hot[:min(len(st.Hot), maxShown)]
	if t := st.Totals; t.Requests != nil {
		one := point{now, *t.Allowed, *t.Served, *t.Denied, *t.WouldDeny}
		s.recent.points = appendBounded(s.recent.points, one, keepPoints)
	}
	s.latest.state = st
	s.hub.send(encodeEvent("state", st))
}

// watchedFor is the time for which a request keeps the reports being read. A page or a person who is watching asks
// again before it ends.
const watchedFor = 10 * time.Second

// Watch records that someone is watching: reports and overrides are read each second until 10 s after the last call,
// and while a stream is open. If they were not being read, Watch reads them before it returns. Rates are known from the
// second report of each limiter on.
func (s *Service) Watch(ctx context.Context) {
	if !s.cfg.OnDemand {
		return
	}
	now := s.cfg.Now()
	was := s.isWatched(now)
	s.watchedUntil.Store(now.Add(watchedFor).UnixNano())
	if !was {
		s.readReports(ctx, now)
		s.ReadOverrides(ctx)
	}
}

func (s *Service) isWatched(now time.Time) bool {
	return !s.cfg.OnDemand || now.UnixNano() < s.watchedUntil.Load() || s.hub.readStats().Streams > 0
}

func (s *Service) readReports(ctx context.Context, now time.Time) {
	if s.cfg.Reports == nil {
		if s.cfg.Uses != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.updateRuleNotes(now)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	reports, err := s.cfg.Reports(ctx)
	var aggregators []report.Aggregator
	if err == nil && s.cfg.Aggregators != nil {
		aggregators, err = s.cfg.Aggregators(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest.failing = s.recordFailure("reports of the limiters", s.latest.failing, err)
	s.rates.add(now, reports)
	if err == nil {
		s.aggregators = aggregators
	}
	s.updateRuleNotes(now)
}

// recordFailure counts an error, logs it if it is new, and returns the text for the page.
func (s *Service) recordFailure(what, before string, err error) string {
	if err == nil {
		if before != "" {
			s.cfg.Log.Info("admin: readable again", "what", what)
		}
		return ""
	}
	s.sampleErrors.Add(1)
	if before == "" {
		s.cfg.Log.Warn("admin: cannot read; trying again every second", "what", what, "err", err)
	}
	return what + " cannot be read: " + err.Error()
}

// ReadOverrides finds changes of the live overrides by any author and sends them to the streams, with the first
// overrides of the list. These are also sent when an override has ended.
func (s *Service) ReadOverrides(ctx context.Context) {
	if s.cfg.Overrides == nil {
		return
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live, err := s.cfg.Overrides.Live(ctx)
	if err == nil {
		err = s.readRevision(ctx)
	}
	var audit []rules.Change
	changed := err == nil && !s.isCurrent(live)
	if changed {
		audit, err = s.cfg.Overrides.Audit(ctx, keepChanges)
	}
	held := s.lastOverrides(s.cfg.Now())
	if err == nil && changed {
		held = s.CatalogOf(live, s.cfg.Now())
	}
	shown, total := held.First(maxShown)
	e := encodeEvent("overrides", shown)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overrides.failing == "" && err != nil {
		s.overrides.failedAt = s.cfg.Now()
	}
	s.overrides.failing = s.recordFailure("overrides", s.overrides.failing, err)
	if err == nil && changed {
		s.overrides.live, s.overrides.audit, s.overrides.loaded = live, audit, true
		s.emitOverrideChanges(audit)
	}
	if changed || total != s.overrides.total || !bytes.Equal(e, s.overrides.sent) {
		s.overrides.sent, s.overrides.total = e, total
		s.hub.send(e)
	}
}

// isCurrent reports whether live overrides equal those that were read last.
func (s *Service) isCurrent(live rules.LiveOverrides) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range live.Changes(s.overrides.live, rules.SameOverride) {
		return false
	}
	return s.overrides.loaded
}

// emitOverrideChanges emits the new changes of an audit, which is newest first. The caller holds mu. Changes before the
// start of this process are history: they fill the feed of later pages and are not emitted.
func (s *Service) emitOverrideChanges(audit []rules.Change) {
	fresh := audit
	if seen := s.overrides.seen; seen != nil {
		if i := slices.IndexFunc(audit, func(c rules.Change) bool {
			return c.At.Equal(seen.At) && c.ID == seen.ID && c.Action == seen.Action
		}); i >= 0 {
			fresh = audit[:i]
		}
	}
	for _, c := range slices.Backward(fresh) {
		if c.ID != "" { // a change without ID is of no override
			s.emitChange(changeOf(c))
		}
	}
	if len(audit) > 0 {
		s.overrides.seen = &audit[0]
	}
}

// emitListChanges emits the keys that entered or left a list since the last sample, and returns the keys that are known
// now. A key that has faded without a report of its end is not reported as ended. The caller holds mu.
func (s *Service) emitListChanges(now time.Time, list []hottype.HotKey, known map[string]listedKey, came,
	left string) map[string]listedKey {
	current := make(map[string]listedKey, len(list))
	for i := range list {
		h := &list[i]
		was, had := known[string(h.Key)]
		listed := listedKey{rule: h.Rule, cost: h.Cost, rate: h.Rate, full: cmp.Or(s.rates.full[h.Key], was.full)}
		current[string(h.Key)] = listed
		if !had {
			named := *h
			named.Key = cmp.Or(listed.full, h.Key)
			s.emitChange(detectionChange(h.Since, came, &named))
		}
	}
	for key, was := range known {
		switch _, still := current[key]; {
		case still:
		case s.cfg.HasEnded != nil && !s.cfg.HasEnded(hottype.Key(key)):
			current[key] = was // no report that it has ended
		default:
			s.emitChange(Change{At: now, Kind: left, Key: cmp.Or(string(was.full), key), Rule: was.rule,
				Cost: was.cost, Rate: was.rate})
		}
	}
	return current
}

// recent is the last two minutes, kept so that a page that is opened or loaded again is not empty. It is bounded and
// not safe for concurrent use.
type recent struct {
	points  []point
	changes []Change
}

const (
	keepPoints  = 120 // seconds of the chart
	keepChanges = 100
)

type point struct {
	At      time.Time `json:"at"`
	Allowed float64   `json:"allowed"`
	Served  float64   `json:"served"`
	Denied  float64   `json:"denied"`
	// WouldDeny is the part of Allowed that something in shadow mode would have denied.
	WouldDeny float64 `json:"would_deny"`
}

type Change struct {
	// Seq numbers the changes of this process from 1.
	Seq  uint64    `json:"seq"`
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Key  string    `json:"key"`
	// Rule, Cost and Rate are set for changes of the hot set. Rate is in units of the cost, or of requests without one.
	Rule string       `json:"rule,omitempty"`
	Cost hottype.Cost `json:"cost,omitempty"`
	Rate float64      `json:"rate,omitempty"`
	// Denied and WouldDeny are set when a key cools or a loop ends: the requests that limiters denied while it lasted,
	// as far as they report the key, and those that something in shadow mode would have denied.
	Denied    int64 `json:"denied,omitempty"`
	WouldDeny int64 `json:"would_deny,omitempty"`
	// Clients, Client and ClientShare describe the clients, if they are known.
	Clients     int64   `json:"clients,omitempty"`
	Client      string  `json:"heaviest_client,omitempty"`
	ClientShare float64 `json:"client_share,omitempty"`
	// Author and Override are set for changes of overrides. For a removed override, Override is its last state.
	Author   string          `json:"author,omitempty"`
	Override *rules.Override `json:"override,omitempty"`
	// Gone is true if an undo removed the override.
	Gone bool `json:"gone,omitempty"`
}

const (
	BecameHot       = "became_hot"
	Cooled          = "cooled"
	BecameLoop      = "became_loop" // over its threshold because of one or a few clients
	CeasedLoop      = "ceased_loop"
	OverridePut     = "override_put"
	OverrideDeleted = "override_deleted"
	OverrideUndone  = "override_undone"
	OverrideBegan   = "override_began" // its schedule is in force from now on
	OverrideEnded   = "override_ended" // its schedule is no longer in force
	HistoryPurged   = "history_purged" // of a key, which is not named
)

// appendBounded removes elements beyond max from the front. It never writes to elements that a caller may have
// received.
func appendBounded[T any](list []T, v T, max int) []T {
	if len(list) >= max {
		list = slices.Clone(list[len(list)-max+1:])
	}
	return append(list, v)
}
