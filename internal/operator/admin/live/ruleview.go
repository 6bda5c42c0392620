package live

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// Rule is a rule as this program runs it.
type Rule struct {
	Name   string     `json:"name"`
	Match  string     `json:"match"`
	Params []string   `json:"params"`
	Hot    string     `json:"hot"`
	Limit  *limitView `json:"limit"` // null: the rule only detects
	// PerClient holds the windows of each client for the requests of the rule, or null if there are none.
	PerClient *clientWindows `json:"per_client"`
	Values    int            `json:"values"` // keys with a limit of their own
	Cache     bool           `json:"cache"`
	HotKeys   int            `json:"hot_keys"` // that are hot now
	// Requests is the number of requests a second that limiters decide for its keys, and WouldDeny the part of them
	// that a limit in shadow mode would deny.
	Requests  float64 `json:"requests_per_second"`
	WouldDeny float64 `json:"would_deny_per_second"`
	// Note is the reason why the rule cannot work as intended, by the requests of the last hour.
	Note string `json:"note,omitempty"`
}

// Process is a limiter or an aggregator, and the rules that it runs.
type Process struct {
	Kind     string `json:"kind"` // "limiter" or "aggregator"
	Instance string `json:"instance"`
	// Running and Rejected are versions of the rules in a central store. They are 0 if the process runs the rules of a
	// file, or rejects no rules.
	Running  int64 `json:"running"`
	Rejected int64 `json:"refused,omitempty"`
	// Rules is "same" if they are the rules of the program that answers, or "other", or "unknown".
	Rules string `json:"rules"`
}

// ClientRule holds the limits of every client, or of the clients of a class.
type ClientRule struct {
	Class    string     `json:"class"` // "": every client
	Fixed    *limitView `json:"fixed"`
	Sliding  *limitView `json:"sliding"`
	InFlight *limitView `json:"in_flight"`
	// PerClient holds the windows that take the place of the windows of every rule that has some, or null.
	PerClient *clientWindows `json:"per_client"`
}

// clientWindows are the windows of each client for the requests of a rule. A window that is not set is null.
type clientWindows struct {
	Fixed   *limitView `json:"fixed"`
	Sliding *limitView `json:"sliding"`
}

// getRunning lists the rules that this program runs, with the limits in force: GET /v1/rules/running.
func (s *Service) getRunning(w http.ResponseWriter, r *http.Request) error {
	s.readReports(r.Context(), s.cfg.Now())
	set, bounds, hot := s.cfg.Rules(), s.adaptiveBounds(), map[string]int{}
	for _, h := range s.hotKeys() {
		hot[h.Rule]++
	}
	speeds := s.ruleSpeeds(s.cfg.Now())
	list := make([]Rule, len(set.Rules))
	for i, r := range set.Rules {
		list[i] = Rule{Name: r.Name, Match: matchText(r), Params: paramNames(r), Hot: r.DescribeHot(),
			Limit: bounds.viewLimit(r.Limit, r.Cost), PerClient: viewPerClient(r.PerClient), Values: len(r.Values),
			Cache: r.Cache != nil, HotKeys: hot[r.Name], Requests: *web.Rounded(speeds[r.Name].requests()),
			WouldDeny: *web.Rounded(speeds[r.Name].WouldDeny)}
	}
	for _, n := range s.ruleNotes() {
		i := slices.IndexFunc(list, func(r Rule) bool { return r.Name == n.Rule })
		if i >= 0 { // if i < 0, the rules have just changed
			list[i].Note = n.Text
		}
	}
	clients := []ClientRule{viewClients("", set.IP.Fixed, set.IP.Sliding, set.IP.InFlight)}
	for _, c := range set.Classes {
		of := viewClients(c.Name, cmp.Or(c.Fixed, set.IP.Fixed), cmp.Or(c.Sliding, set.IP.Sliding),
			cmp.Or(c.InFlight, set.IP.InFlight))
		of.PerClient = viewPerClient(c.PerClient)
		clients = append(clients, of)
	}
	return web.WriteJSON(w, http.StatusOK, map[string]any{"at": s.cfg.Now(), "rules": list, "clients": clients,
		"overrides": len(set.Overrides), "central": s.cfg.CentralRules, "processes": s.reportingProcesses(set)})
}

// ruleSpeeds returns the decisions a second for the keys of each rule that limiters report.
func (s *Service) ruleSpeeds(now time.Time) map[string]keySpeed {
	set, sums := s.cfg.Rules(), map[string]keySpeed{}
	for key, sp := range s.keySpeeds(now) {
		if rule := set.RuleFor(key.Resource()); rule != nil {
			sum := sums[rule.Name]
			sums[rule.Name] = keySpeed{sum.Allowed + sp.Allowed, sum.Denied + sp.Denied, sum.Served + sp.Served,
				sum.WouldDeny + sp.WouldDeny}
		}
	}
	return sums
}

// RuleRequests returns the requests a second that limiters decide for the keys of a rule that they report, and the part
// of them that something in shadow mode would deny.
func (s *Service) RuleRequests(rule string, now time.Time) (requests, wouldDeny float64) {
	sp := s.ruleSpeeds(now)[rule]
	return sp.requests(), sp.WouldDeny
}

func viewClients(class string, fixed, sliding *rules.ClientWindow, inFlight *rules.InFlight) ClientRule {
	c := ClientRule{Class: class}
	if fixed != nil {
		c.Fixed = viewWindow(fixed)
	}
	if sliding != nil {
		c.Sliding = viewWindow(sliding)
	}
	if inFlight != nil {
		c.InFlight = adaptiveBounds{}.viewLimit(rules.Limit{InFlight: inFlight}, "")
	}
	return c
}

func viewPerClient(of *rules.PerClient) *clientWindows {
	if of == nil {
		return nil
	}
	w := viewClients("", of.Fixed, of.Sliding, nil)
	return &clientWindows{w.Fixed, w.Sliding}
}

// matchText describes the requests that a rule counts: "GET,POST example.org/topic".
func matchText(r *rules.Rule) string {
	if r.IsCatchAll() {
		return "requests that no other rule counts"
	}
	m := r.Match
	text := strings.Join(m.Hosts, ",") + cmp.Or(m.Path, "/…")
	if len(m.Methods) > 0 {
		text = strings.Join(m.Methods, ",") + " " + text
	}
	return text
}

func paramNames(r *rules.Rule) []string {
	names := make([]string, len(r.Params))
	for i, p := range r.Params {
		names[i] = p.Name
	}
	return names
}
