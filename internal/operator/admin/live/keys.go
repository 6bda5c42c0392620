package live

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

type Key struct {
	Key string `json:"key"`
	// Asked is the key as the request names it. It is absent where rules redact keys. If it differs from the key that
	// the caller sent, a gateway on the way changes paths.
	Asked    string          `json:"asked,omitempty"`
	Resource string          `json:"resource"`
	Params   string          `json:"params"`
	Rule     *ruleView       `json:"rule"` // null: no rule counts this resource
	Hot      bool            `json:"hot"`
	Detected *hottype.HotKey `json:"detected"` // null: not hot
	Loop     *hottype.HotKey `json:"loop"`     // null: not a loop
	Allowed  *float64        `json:"allowed_per_second"`
	Denied   *float64        `json:"denied_per_second"`
	Served   *float64        `json:"served_per_second"` // requests that a response cache answered, not in Allowed
	// WouldDeny is the part of Allowed that a limit of the key in shadow mode would have denied.
	WouldDeny *float64 `json:"would_deny_per_second"`
	// Senders is null if the key is not among the heaviest hot keys.
	Senders  *sendersView  `json:"senders"`
	Override *changes.View `json:"override"`
	// Tried is the override in shadow mode that would decide if it were enforced, or null.
	Tried *changes.View `json:"tried"`
	// Limits are all limits that could apply to a request for the key. Each has the reason why it applies now or not.
	Limits   []appliedLimit `json:"limits"`
	Warnings []string       `json:"warnings,omitempty"`
}

type ruleView struct {
	Name     string       `json:"name"`
	CatchAll bool         `json:"catch_all"`
	Cost     hottype.Cost `json:"cost,omitempty"`
	HotRate  float64      `json:"hot_rate"` // in units of the cost a second
	WindowMS float64      `json:"window_ms"`
	// Threshold is the number of requests within the window, or what they cost.
	Threshold float64 `json:"threshold"`
}

type appliedLimit struct {
	// Source is override, rule, client_fixed, client_sliding, ip_fixed, ip_sliding or ip_in_flight.
	Source  string     `json:"source"`
	Applies bool       `json:"applies"`
	Denies  bool       `json:"denies,omitempty"` // recent requests of a client
	Why     string     `json:"why"`
	Limit   *limitView `json:"limit"`
}

func (s *Service) getKey(w http.ResponseWriter, r *http.Request) error {
	key := web.Named(r, "key")
	if r.PathValue("key") != "" && r.URL.RawQuery != "" {
		return web.BadField("key", "the key's ? began the query of the URL",
			"percent-encode the whole key: "+web.KeyHref(hottype.Key(key+"?"+r.URL.RawQuery)))
	}
	canonical, err := web.NamedKey(r, s.cfg.Rules())
	if err != nil {
		return err
	}
	canonical = s.FullKey(canonical)
	answer, err := s.describeKey(r, canonical, s.cfg.Now())
	if err != nil {
		return err
	}
	answer.Asked = web.Asked(r, s.cfg.Rules())
	switch {
	case s.cfg.Rules().Redacts() && string(canonical) != key:
		answer.Warnings = append(answer.Warnings,
			"the key was brought into the form in which requests are counted, without redacted values")
	case string(canonical) != key:
		answer.Warnings = append(answer.Warnings, "you asked for "+key+", whose canonical form this is")
	}
	return web.WriteJSON(w, http.StatusOK, answer)
}

func (s *Service) describeKey(r *http.Request, key hottype.Key, now time.Time) (*Key, error) {
	held, err := s.Overrides(r.Context())
	if err != nil {
		return nil, err
	}
	set := s.cfg.Rules()
	o := held.Index.Find([]byte(key), now)
	rule := set.RuleFor(key.Resource())
	a := &Key{Key: string(key), Resource: key.Resource(), Params: key.Params(), Rule: viewRule(rule),
		Override: held.ViewOf(o)}
	a.Tried = s.viewTried(held, key, now, map[*rules.Override]*changes.View{})
	hot := s.hotKeys()
	if i := slices.IndexFunc(hot, func(h hottype.HotKey) bool { return h.Key == key }); i >= 0 {
		a.Hot, a.Detected = true, &hot[i]
	}
	loops := s.loopKeys()
	if i := slices.IndexFunc(loops, func(h hottype.HotKey) bool { return h.Key == key }); i >= 0 {
		a.Loop = &loops[i]
	}
	if sp, ok := s.keySpeeds(now)[key]; ok {
		a.Allowed, a.Denied, a.Served = web.Rounded(sp.Allowed), web.Rounded(sp.Denied), web.Rounded(sp.Served)
		a.WouldDeny = web.Rounded(sp.WouldDeny)
	}
	a.Senders = s.sendersOf(key, now)
	limits := slices.Concat(overrideLimits(rule, o, key), s.adaptiveBounds().ruleLimits(rule, o, key, a.Hot),
		ruleWindowLimits(rule, o), ipLimits(set.IP, o))
	a.Limits = append([]appliedLimit{}, limits...) // [] in JSON if there are none, not null
	a.Warnings = changes.KeyWarnings(set, key)
	if trouble := s.Trouble(); trouble != "" {
		a.Warnings = append(a.Warnings, trouble)
	}
	return a, nil
}

// viewTried returns the override in shadow mode that would decide about a key if it were enforced, with its hits, or
// nil. It keeps the views that it makes in known, because an override with a pattern may be tried on many keys.
func (s *Service) viewTried(held *changes.Catalog, key hottype.Key, now time.Time,
	known map[*rules.Override]*changes.View) *changes.View {
	t := held.Index.WithShadow().Find([]byte(key), now)
	if t == nil || !t.InShadow() {
		return nil
	}
	if known[t] == nil {
		views := []changes.View{*held.ViewOf(t)}
		s.AddHits(views, now)
		known[t] = &views[0]
	}
	return known[t]
}

func viewRule(r *rules.Rule) *ruleView {
	if r == nil {
		return nil
	}
	return &ruleView{Name: r.Name, CatchAll: r.IsCatchAll(), Cost: r.Cost, HotRate: r.Hot.Rate,
		WindowMS:  float64(r.Hot.Window) / float64(time.Millisecond),
		Threshold: float64(r.Threshold()) / float64(r.Cost.Unit())}
}

func overrideLimits(rule *rules.Rule, o *rules.Override, key hottype.Key) []appliedLimit {
	if o == nil {
		return nil
	}
	l := appliedLimit{Source: "override", Applies: true}
	switch o.Action {
	case rules.ActionLimit:
		l.Limit = viewOverride(rule, o)
		l.Why = "an override sets its own limit, hot or not"
	case rules.ActionBlock:
		l.Why = "an override blocks the key"
	case rules.ActionExempt:
		l.Why = "an override exempts the key from every limit"
	case rules.ActionShadow:
		l.Why = "an override lets the rule's limit only watch"
	case rules.ActionCache:
		l.Why = "an override answers the key from the cache, hot or not"
	}
	switch {
	case o.IsPattern():
		l.Why += ", by the pattern " + o.Key
	case o.Resource != "":
		l.Why += ", by the limit of the whole resource"
	case o.Key != string(key):
		l.Why += ", because it blocks " + o.Key + " and a malformed request may be for that"
	}
	return []appliedLimit{l}
}

func (b adaptiveBounds) ruleLimits(rule *rules.Rule, o *rules.Override, key hottype.Key, hot bool) []appliedLimit {
	if rule == nil {
		return nil
	}
	held := rule.LimitFor(key)
	l := appliedLimit{Source: "rule", Limit: b.viewLimit(held, rule.Cost)}
	l.Applies = hot && l.Limit != nil
	malformed := key.Params() == canon.Malformed
	switch {
	case malformed && (o == nil || o.KeepsLimit()):
		return []appliedLimit{malformedLimit(rule, l, o != nil && o.Action == rules.ActionShadow)}
	case l.Limit == nil && rule.MinCount() == 0:
		return nil // it only has windows of clients
	case l.Limit == nil:
		l.Why = "the rule only detects"
	case o != nil && !o.KeepsLimit():
		l.Applies, l.Why = false, "the override stands before it"
	case !hot:
		l.Why = "the key is not hot: below " + rule.DescribeHot()
	case o != nil && o.Action == rules.ActionShadow:
		l.Limit.Mode, l.Why = hottype.ModeShadow, "the key is hot, and the override lets the limit only watch"
	case rule.HasValue(key):
		l.Why = "the key is hot, and the rule's value list names it"
	default:
		l.Why = "the key is hot"
	}
	return []appliedLimit{l}
}

func malformedLimit(rule *rules.Rule, l appliedLimit, shadow bool) appliedLimit {
	switch {
	case rule.Malformed == rules.MalformedDeny:
		return appliedLimit{Source: l.Source, Applies: true, Why: "the rule denies malformed requests",
			Limit: &limitView{Mode: hottype.ModeEnforce, Text: "denied"}}
	case rule.Malformed == rules.MalformedAllow:
		return appliedLimit{Source: l.Source, Why: "the rule only counts malformed requests"}
	case l.Limit == nil:
		l.Why = "the rule only detects"
		return l
	}
	l.Applies, l.Why = true, "malformed requests are held to the rule's limit, hot or not"
	if shadow {
		l.Limit.Mode, l.Why = hottype.ModeShadow, l.Why+", and the override lets the limit only watch"
	}
	return l
}

// maxParts is the number of names in a list of senders.
const maxParts = 8

// sendersView shows the clients that request a hot key and the spellings that they use, by a sample of its requests.
type sendersView struct {
	Sampled   uint64     `json:"sampled"` // requests, of all limiters
	Prefixes  []partView `json:"prefixes"`
	Classes   []partView `json:"classes"`
	Spellings []partView `json:"spellings"` // null: the rules redact values
}

type partView struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// sendersOf joins the samples of a key of the running limiters. It returns nil if there are none.
func (s *Service) sendersOf(key hottype.Key, now time.Time) *sendersView {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &sendersView{}
	prefixes, classes, spellings := map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	for _, in := range s.rates.instances {
		if now.Sub(in.heard) > quietAfter {
			continue
		}
		for _, k := range in.last.Samples {
			if cmp.Or(s.rates.full[k.Key], k.Key) == key {
				v.Sampled += k.Sampled
				addNames(prefixes, k.Prefixes)
				addNames(classes, k.Classes)
				addNames(spellings, k.Spellings)
			}
		}
	}
	if v.Sampled == 0 {
		return nil
	}
	v.Prefixes, v.Classes = topShares(prefixes, v.Sampled), topShares(classes, v.Sampled)
	if !s.cfg.Rules().Redacts() {
		v.Spellings = topShares(spellings, v.Sampled)
	}
	return v
}

func addNames(sum map[string]uint64, list []report.NameCount) {
	for _, c := range list {
		sum[c.Name] += c.N
	}
}

// topShares returns the most frequent names of a sample, most frequent first.
func topShares(counts map[string]uint64, sampled uint64) []partView {
	list := make([]partView, 0, len(counts))
	for name, n := range counts {
		list = append(list, partView{name, min(1, math.Round(1000*float64(n)/float64(sampled))/1000)})
	}
	slices.SortFunc(list, func(a, b partView) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), strings.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), maxParts)]
}
