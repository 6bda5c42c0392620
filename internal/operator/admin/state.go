package admin

import (
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// latest is what the last sample found.
type latest struct {
	state   state
	closest []closeKey // replaced, never changed
	failing string     // why reports cannot be read, "" if they can
}

// state is the event of every second.
type state struct {
	At     time.Time  `json:"at"`
	Totals totalsView `json:"totals"`
	Status []Status   `json:"status"`
	Hot    []hotView  `json:"hot"`
	Loops  []loopView `json:"loops"`
	// Closest are the keys nearest to their thresholds, some seconds old; none while something is hot.
	Closest []closeKey `json:"closest"`
	// Lagging are limiters that lack a change of the overrides, at most 100.
	Lagging []limiterView `json:"lagging"`
	Trouble []string      `json:"trouble"` // what cannot be shown, and why
}

// hello is the first event of a stream: all that a page needs at once.
type hello struct {
	Namespace string               `json:"namespace"`
	Version   string               `json:"version"`
	Writable  bool                 `json:"writable"`     // there is an override store
	Kept      bool                 `json:"history_kept"` // GET /v1/history answers
	History   []point              `json:"history"`
	Sparks    map[string][]float64 `json:"sparks"`
	Changes   []Change             `json:"changes"`
	Overrides []overrideView       `json:"overrides"`
	State     state                `json:"state"`
}

// overrideNotes is what is known of the live overrides since they were last
// read. Lists are replaced, never changed.
type overrideNotes struct {
	list    []rules.Override
	loaded  bool
	sent    []byte        // the last overrides event
	seen    *rules.Change // newest change already told
	failing string
	// revision is the newest one, revisions the last ones, newest first.
	revision  int64
	revisions []int64
}

// hotNote is what a cooled key was.
type hotNote struct {
	rule string
	rate float64
}

// look makes the picture of one moment, with those of the hot keys that are to be shown.
func (s *Server) look(now time.Time, hot, shown, loops []hottype.Hot) state {
	st := state{
		At: now, Status: []Status{}, Hot: s.viewHot(now, shown), Loops: viewLoops(loops),
		Closest: []closeKey{}, Trouble: []string{},
	}
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

func viewTotals(sp speed) totalsView {
	v := totalsView{DeniedBy: map[string]float64{}, Limiters: sp.Limiters}
	if !sp.Known {
		return v
	}
	var denied float64
	for r := range (hottype.Denials{}).All() {
		v.DeniedBy[r.String()] = *rounded(sp.Denied[r])
		denied += sp.Denied[r]
	}
	v.Requests, v.Allowed, v.Denied = rounded(sp.Allowed+denied), rounded(sp.Allowed), rounded(denied)
	return v
}

// viewHot adds to each hot key what limits it and what became of its requests.
func (s *Server) viewHot(now time.Time, hot []hottype.Hot) []hotView {
	set := s.cfg.Rules()
	s.mu.Lock()
	live := s.overrides.list
	s.mu.Unlock()
	speeds := s.speeds(now)
	index := rules.NewOverrides(set.Overrides, live)
	views := make([]hotView, len(hot))
	for i, h := range hot {
		o := index.Find([]byte(h.Key), now)
		v := hotView{Hot: h, Href: keyHref(h.Key), Limit: effective(set, o, h.Key),
			Override: viewOverride(o, live, now)}
		v.LimitSource = limitSource(set, o, h.Key)
		if rule := set.RuleFor(h.Key.Resource()); rule != nil {
			v.Threshold = rule.Hot.Rate
		}
		if sp, ok := speeds[h.Key]; ok {
			v.Allowed, v.Denied, v.Served = rounded(sp.Allowed), rounded(sp.Denied), rounded(sp.Served)
		}
		views[i] = v
	}
	return views
}

// speeds are the decisions a second on each key of which limiters report.
func (s *Server) speeds(now time.Time) map[hottype.Key]keySpeed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rates.now(now).Keys
}

// viewOverride tells a live override from one of the file by its ID.
func viewOverride(o *rules.Override, live []rules.Override, now time.Time) *overrideView {
	if o == nil {
		return nil
	}
	v := viewed(*o, sourceFile, now)
	if slices.ContainsFunc(live, func(l rules.Override) bool { return l.ID == o.ID && l.SamePlace(*o) }) {
		v.Source = sourceLive
	}
	return &v
}

// withID gives an override of the rules file the ID that its key makes.
func withID(o rules.Override) rules.Override {
	if o.ID == "" {
		o.ID = o.DefaultID()
	}
	return o
}

// listed is every override that has not ended at now: the live ones, newest
// first, and those of the file that no live one of the same target replaces. One
// with a schedule replaces none, because it holds only at times, and one in shadow mode
// none but those in shadow mode.
func listed(set *rules.Set, live []rules.Override, now time.Time) []overrideView {
	views := []overrideView{}
	type place struct {
		of   rules.Target
		mode hottype.Mode
	}
	replaced := map[place]bool{}
	for _, o := range live {
		if o.Expired(now) {
			continue
		}
		views = append(views, viewed(o, sourceLive, now))
		if o.Schedule.IsZero() {
			replaced[place{o.Target(), o.Mode}] = true
			replaced[place{o.Target(), hottype.ModeShadow}] = true
		}
	}
	slices.SortStableFunc(views, func(a, b overrideView) int { return b.Created.Compare(a.Created) })
	for _, o := range set.Overrides {
		if !o.Expired(now) && !replaced[place{o.Target(), o.Mode}] {
			views = append(views, viewed(o, sourceFile, now))
		}
	}
	return views
}

// shownOverrides is the list as last read. The caller holds mu.
func (s *Server) shownOverrides(now time.Time) []overrideView {
	return listed(s.cfg.Rules(), s.overrides.list, now)
}

func (s *Server) hello(now time.Time) hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	sparks := map[string][]float64{}
	for i := range s.latest.state.Hot {
		key := s.latest.state.Hot[i].Key
		sparks[string(key)] = s.seconds.spark(key, now)
	}
	return hello{
		Namespace: s.cfg.Namespace,
		Version:   s.cfg.Version,
		Writable:  s.cfg.Overrides != nil,
		Kept:      s.cfg.History != nil,
		History:   s.recent.points,
		Sparks:    sparks,
		Changes:   s.recent.changes,
		Overrides: s.shownOverrides(now),
		State:     s.latest.state,
	}
}

// changeOf is a change of an override as the feed shows it.
func changeOf(c rules.Change) Change {
	out := Change{At: c.At, Kind: overridePut, Author: c.Author, Override: c.After}
	switch c.Action {
	case "delete":
		out.Kind = overrideDeleted
	case "undo":
		out.Kind = overrideUndone
	}
	if out.Override == nil {
		out.Override = c.Before
	}
	if out.Override != nil {
		out.Key = out.Override.Target().String()
	}
	return out
}

func sameChange(a, b rules.Change) bool {
	return a.At.Equal(b.At) && a.ID == b.ID && a.Action == b.Action
}

// sameOverride compares values; times may differ in their zone.
func sameOverride(a, b rules.Override) bool {
	same := a.Until.Equal(b.Until) && a.Created.Equal(b.Created)
	a.Until, a.Created, b.Until, b.Created = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return same && a == b
}
