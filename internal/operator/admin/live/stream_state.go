package live

import (
	"cmp"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

type latest struct {
	state   State
	closest []closeKey // replaced, never changed
	failing string     // why reports cannot be read, "" if they can
}

type State struct {
	At     time.Time `json:"at"`
	Totals Totals    `json:"totals"`
	Status []Status  `json:"status"`
	Hot    []HotKey  `json:"hot"`
	Loops  []Loop    `json:"loops"`
	// Clients are those with most denials, at most 10; GET /v1/clients has more.
	Clients []DeniedClient `json:"clients"`
	// Closest are the keys nearest to their thresholds, some seconds old; none while something is hot.
	Closest []closeKey `json:"closest"`
	// Lagging are limiters that lack a change of the overrides, at most 100.
	Lagging []Limiter `json:"lagging"`
	Trouble []string  `json:"trouble"` // what cannot be shown, and why
}

// Init is the first event of a stream: all that a page needs at once.
type Init struct {
	Namespace string               `json:"namespace"`
	Version   string               `json:"version"`
	Writable  bool                 `json:"writable"`     // there is an override store
	Kept      bool                 `json:"history_kept"` // GET /v1/history answers
	History   []point              `json:"history"`
	Sparks    map[string][]float64 `json:"sparks"`
	Changes   []Change             `json:"changes"`
	Overrides []changes.View       `json:"overrides"`
	State     State                `json:"state"`
}

// overrideNotes is what is known of the live overrides since they were last
// read. Lists are replaced, never changed.
type overrideNotes struct {
	list    []rules.Override
	loaded  bool
	sent    []byte        // the last overrides event
	seen    *rules.Change // newest change already sent
	failing string
	// revision is the newest one, revisions the last ones, newest first.
	revision  int64
	revisions []int64
}

type hotNote struct {
	rule string
	rate float64
}

func (s *Service) buildState(now time.Time, hot, shown, loops []hottype.HotKey) State {
	st := State{
		At: now, Status: []Status{}, Hot: s.viewHot(now, shown), Loops: viewLoops(loops),
		Closest: []closeKey{}, Trouble: []string{}, Clients: s.deniedClients(now),
	}
	st.Clients = st.Clients[:min(len(st.Clients), maxShownClients)]
	if s.cfg.Status != nil {
		st.Status = append(st.Status, s.cfg.Status()...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Totals = viewTotals(s.rates.now(now))
	st.Totals.HotKeys, st.Totals.Loops = len(hot), len(loops)
	st.Lagging = s.lagging(now)
	if len(hot) == 0 {
		st.Closest = append(st.Closest, s.latest.closest...)
	}
	for _, trouble := range []string{s.latest.failing, s.overrides.failing} {
		if trouble != "" {
			st.Trouble = append(st.Trouble, trouble)
		}
	}
	return st
}

func viewTotals(sp speed) Totals {
	v := Totals{DeniedBy: map[string]float64{}, Limiters: sp.Limiters}
	if !sp.Known {
		return v
	}
	var denied float64
	for r := range (hottype.Denials{}).All() {
		v.DeniedBy[r.String()] = *web.Rounded(sp.Denied[r])
		denied += sp.Denied[r]
	}
	v.Requests, v.Allowed, v.Denied = web.Rounded(sp.Allowed+denied), web.Rounded(sp.Allowed), web.Rounded(denied)
	return v
}

func (s *Service) viewHot(now time.Time, hot []hottype.HotKey) []HotKey {
	set := s.cfg.Rules()
	s.mu.Lock()
	live := s.overrides.list
	s.mu.Unlock()
	speeds := s.speeds(now)
	index := rules.NewOverrides(set.Overrides, live)
	views := make([]HotKey, len(hot))
	for i, h := range hot {
		o := index.Find([]byte(h.Key), now)
		v := HotKey{HotKey: h, Href: web.KeyHref(h.Key), Limit: effective(set, o, h.Key),
			Override: changes.ViewOf(o, live, now)}
		v.LimitSource = limitSource(set, o, h.Key)
		if rule := set.RuleFor(h.Key.Resource()); rule != nil {
			v.Threshold = rule.Hot.Rate
		}
		if sp, ok := speeds[h.Key]; ok {
			v.Allowed, v.Denied, v.Served = web.Rounded(sp.Allowed), web.Rounded(sp.Denied), web.Rounded(sp.Served)
		}
		views[i] = v
	}
	return views
}

// speeds are the decisions a second on each key of which limiters report.
func (s *Service) speeds(now time.Time) map[hottype.Key]keySpeed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rates.now(now).Keys
}

// shownOverrides is the list as last read. The caller holds mu.
func (s *Service) shownOverrides(now time.Time) []changes.View {
	return changes.Listed(s.cfg.Rules(), s.overrides.list, now)
}

func (s *Service) Init(now time.Time) Init {
	s.mu.Lock()
	defer s.mu.Unlock()
	sparks := map[string][]float64{}
	for i := range s.latest.state.Hot {
		key := s.latest.state.Hot[i].Key
		sparks[string(key)] = s.seconds.spark(key, now)
	}
	return Init{
		Namespace: s.cfg.Namespace, Version: s.cfg.Version, Writable: s.cfg.Overrides != nil,
		Kept: s.cfg.History != nil, History: s.recent.points, Sparks: sparks, Changes: s.recent.changes,
		Overrides: s.shownOverrides(now), State: s.latest.state,
	}
}

func changeOf(c rules.Change) Change {
	out := Change{At: c.At, Kind: OverridePut, Author: c.Author, Override: cmp.Or(c.After, c.Before)}
	switch c.Action {
	case "delete":
		out.Kind = OverrideDeleted
	case "undo":
		out.Kind = OverrideUndone
	}
	if out.Override != nil {
		out.Key = out.Override.Target().String()
	}
	return out
}

// sameOverride compares values; times may differ in their zone.
func sameOverride(a, b rules.Override) bool {
	same := a.Until.Equal(b.Until) && a.Created.Equal(b.Created)
	a.Until, a.Created, b.Until, b.Created = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return same && a == b
}
