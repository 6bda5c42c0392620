package live

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

type latest struct {
	state   State
	closest []closeKey // replaced, never changed
	failing string     // reason why reports cannot be read, or ""
}

type State struct {
	At     time.Time `json:"at"`
	Totals Totals    `json:"totals"`
	Status []Status  `json:"status"`
	Hot    []HotKey  `json:"hot"`
	Loops  []Loop    `json:"loops"`
	// Clients are the clients with the most denials, at most 10. GET /v1/clients has more.
	Clients []DeniedClient `json:"clients"`
	// Heaviest are the clients and networks with the most requests, denied or not, at most 10.
	Heaviest []HeavyClient `json:"heaviest"`
	// ClientsLimited is true if the rules limit clients for all their requests.
	ClientsLimited bool `json:"clients_limited"`
	// Closest are the keys nearest to their thresholds, some seconds old. It is empty while a key is hot.
	Closest []closeKey `json:"closest"`
	// Lagging are the limiters that lack a change of the overrides, at most 100.
	Lagging []Limiter `json:"lagging"`
	Trouble []string  `json:"trouble"` // data that cannot be shown, and the reasons
	// Costs holds the rules that count another cost than requests, by their names.
	Costs map[string]hottype.Cost `json:"costs,omitempty"`
}

// Init is the first event of a stream, with everything that a page needs at once.
type Init struct {
	Namespace string               `json:"namespace"`
	Version   string               `json:"version"`
	Writable  bool                 `json:"writable"`     // there is an override store
	Kept      bool                 `json:"history_kept"` // GET /v1/history answers
	History   []point              `json:"history"`
	Sparks    map[string][]float64 `json:"sparks"`
	Changes   []Change             `json:"changes"`
	Overrides []changes.View       `json:"overrides"` // the first maxShown
	State     State                `json:"state"`
}

// overrideNotes is the knowledge of the live overrides from the last read. Lists are replaced, never changed.
type overrideNotes struct {
	live    rules.LiveOverrides
	loaded  bool
	sent    []byte        // the last overrides event
	total   int           // overrides that had not ended then; the event has the first of them
	seen    *rules.Change // newest change already sent
	audit   []rules.Change
	failing string
	// failedAt is the time since which they cannot be read.
	failedAt time.Time
	// revision is the newest revision, and revisions are the last ones, newest first.
	revision  int64
	revisions []int64
}

// listedKey holds the fields of a hot key or a loop that the report of its end needs.
type listedKey struct {
	rule string
	cost hottype.Cost
	rate float64
	full hottype.Key // of an alias; "" if it is not known
}

// newState returns the state before the first sample. Its lists are empty and not null, as the page expects.
func newState(now time.Time) State {
	return State{
		At: now, Totals: viewTotals(speed{}), Status: []Status{}, Hot: []HotKey{}, Loops: []Loop{},
		Clients: []DeniedClient{}, Heaviest: []HeavyClient{}, Closest: []closeKey{}, Lagging: []Limiter{},
		Trouble: []string{},
	}
}

func (s *Service) buildState(now time.Time, hot, shown, loops []hottype.HotKey) State {
	st := State{
		At: now, Status: s.Status(), Hot: s.viewHot(now, shown), Loops: viewLoops(loops),
		ClientsLimited: s.cfg.Rules().LimitsClients(), Closest: []closeKey{}, Trouble: []string{},
		Costs:   costsOf(s.cfg.Rules()),
		Clients: s.deniedClients(now),
	}
	st.Clients = st.Clients[:min(len(st.Clients), maxShownClients)]
	st.Heaviest = s.heaviestClients(now)
	st.Heaviest = st.Heaviest[:min(len(st.Heaviest), maxShownClients)]
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Totals = viewTotals(s.rates.totalSpeed(now))
	st.Totals.HotKeys, st.Totals.Loops, st.Totals.Overrides = len(hot), len(loops), s.overrides.total
	st.Lagging = s.laggingLimiters(now)
	if len(hot) == 0 {
		st.Closest = append(st.Closest, s.latest.closest...)
	}
	// Trouble is an empty list before, so that it is never null: the page reads its length.
	st.Trouble = append(append(st.Trouble, s.storeTrouble()...), s.refusedGateways(now)...)
	st.Trouble = append(st.Trouble, s.fullSets(hot)...)
	st.Trouble = append(st.Trouble, s.failingTrouble(now)...)
	st.Trouble = append(st.Trouble, s.rulesTrouble(now)...)
	return st
}

// maxRefused bounds the sentences about limiters that refuse gateways.
const maxRefused = 10

// refusedGateways returns a sentence for each limiter that refuses gateways. The caller holds mu.
func (s *Service) refusedGateways(now time.Time) (list []string) {
	for _, id := range slices.Sorted(maps.Keys(s.rates.instances)) {
		in := s.rates.instances[id]
		for _, g := range in.last.RefusedGateways {
			if now.Sub(in.heard) <= quietAfter && len(list) < maxRefused {
				list = append(list, fmt.Sprintf("%s refuses gateways at its listener %s (addresses: %d): their token is "+
					"missing or wrong. They get no verdicts, so that requests pass or fail as their files say.", id, g.Name, g.N))
			}
		}
	}
	return list
}

// storeTrouble describes what cannot be read, in one sentence if the store does not answer. The caller holds mu.
func (s *Service) storeTrouble() []string {
	reports, overrides := s.latest.failing, s.overrides.failing
	if s.cfg.Store != "" && reports != "" && overrides != "" {
		return []string{fmt.Sprintf("%s has not answered since %s: rates, overrides and rules are from that time and "+
			"cannot be changed. Limiters continue with their copies.", s.cfg.Store,
			s.overrides.failedAt.UTC().Format("2006-01-02 15:04:05 MST"))}
	}
	return slices.DeleteFunc([]string{reports, overrides}, func(text string) bool { return text == "" })
}

// Trouble describes what cannot be read now. It is "" if no failure is known.
func (s *Service) Trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.storeTrouble(), "; ")
}

// Overrides returns the overrides of the file and of the store. While the store does not answer, it returns the live
// overrides that were read last.
func (s *Service) Overrides(ctx context.Context) (*changes.Catalog, error) {
	if s.cfg.Overrides == nil {
		return s.lastOverrides(s.cfg.Now()), nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live, err := s.cfg.Overrides.Live(ctx)
	if err == nil {
		return s.CatalogOf(live, s.cfg.Now()), nil
	}
	s.mu.Lock()
	loaded := s.overrides.loaded
	s.mu.Unlock()
	if !loaded {
		return nil, fmt.Errorf("admin: overrides cannot be read: %w", err)
	}
	return s.lastOverrides(s.cfg.Now()), nil
}

// lastOverrides returns the overrides of the file and the live overrides that were read last.
func (s *Service) lastOverrides(now time.Time) *changes.Catalog {
	s.mu.Lock()
	live := s.overrides.live
	s.mu.Unlock()
	return s.CatalogOf(live, now)
}

// CatalogOf returns the overrides of the file and given live overrides. Call it without mu, because the first catalog
// of many overrides takes a while.
func (s *Service) CatalogOf(live rules.LiveOverrides, now time.Time) *changes.Catalog {
	return s.catalogs.CatalogOf(s.cfg.Rules(), live, now)
}

// LastAudit returns the audit of the overrides as last read, newest first, or nil if it was never read.
func (s *Service) LastAudit() []rules.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overrides.audit
}

func viewTotals(sp speed) Totals {
	v := Totals{DeniedBy: map[string]float64{}, Limiters: sp.Limiters}
	if !sp.Known {
		return v
	}
	var denied float64
	for r := range (report.Denials{}).All() {
		v.DeniedBy[r.String()] = *web.Rounded(sp.Denied[r])
		denied += sp.Denied[r]
	}
	v.Requests, v.Denied = web.Rounded(sp.Allowed+sp.Served+denied), web.Rounded(denied)
	v.Allowed, v.Served, v.WouldDeny = web.Rounded(sp.Allowed), web.Rounded(sp.Served), web.Rounded(sp.WouldDeny)
	return v
}

func (s *Service) viewHot(now time.Time, hot []hottype.HotKey) []HotKey {
	set, held, aliases := s.cfg.Rules(), s.lastOverrides(now), map[hottype.Key]hottype.Key{}
	s.mu.Lock()
	for alias, full := range s.rates.full {
		aliases[full] = alias
	}
	s.mu.Unlock()
	speeds := s.keySpeeds(now)
	views, bounds, tried := make([]HotKey, len(hot)), s.adaptiveBounds(), map[*rules.Override]*changes.View{}
	for i, h := range hot {
		o, rule := held.Index.Find([]byte(h.Key), now), set.RuleOf(h.Key, h.Rule)
		v := HotKey{HotKey: h, Href: web.KeyHref(h.Key), Limit: bounds.effectiveLimit(rule, o, h.Key),
			Override: held.ViewOf(o)}
		v.LimitSource = limitSource(rule, o, h.Key, v.Limit)
		if rule != nil {
			v.Threshold = thresholdOf(rule, &h)
			if o != nil {
				v.RuleLimit = bounds.viewLimit(rule.LimitFor(h.Key), rule.Cost)
			}
		}
		if sp, ok := speeds[h.Key]; ok {
			v.Allowed, v.Denied, v.Served = web.Rounded(sp.Allowed), web.Rounded(sp.Denied), web.Rounded(sp.Served)
			v.WouldDeny = web.Rounded(sp.WouldDeny)
		}
		v.Tried = s.viewTried(held, h.Key, now, tried)
		v.Alias = aliases[h.Key]
		views[i] = v
	}
	return views
}

// keySpeeds returns the decisions a second for each key that limiters report.
func (s *Service) keySpeeds(now time.Time) map[hottype.Key]keySpeed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rates.totalSpeed(now).Keys
}

func (s *Service) Init(now time.Time) Init {
	shown, _ := s.lastOverrides(now).First(maxShown)
	s.mu.Lock()
	defer s.mu.Unlock()
	sparks := map[string][]float64{}
	for i := range s.latest.state.Hot {
		key := s.latest.state.Hot[i].Key
		sparks[string(key)] = s.seconds.sparkRates(key, now)
	}
	recent := slices.Clone(s.recent.changes)
	for i := range recent {
		recent[i].Key = string(cmp.Or(s.rates.full[hottype.Key(recent[i].Key)], hottype.Key(recent[i].Key)))
	}
	return Init{
		Namespace: s.cfg.Namespace, Version: s.cfg.Version, Writable: s.cfg.Overrides != nil,
		Kept: s.cfg.History != nil, History: s.recent.points, Sparks: sparks, Changes: recent,
		Overrides: shown, State: s.latest.state,
	}
}

func changeOf(c rules.Change) Change {
	out := Change{At: c.At, Kind: OverridePut, Author: c.Author, Override: cmp.Or(c.After, c.Before)}
	switch c.Action {
	case "delete":
		out.Kind = OverrideDeleted
	case "undo":
		out.Kind, out.Gone = OverrideUndone, c.After == nil
	}
	if out.Override != nil {
		out.Key = out.Override.Target().String()
	}
	return out
}
