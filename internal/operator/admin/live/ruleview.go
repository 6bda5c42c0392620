package live

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

// Rule is a rule as this program runs it.
type Rule struct {
	Name    string     `json:"name"`
	Match   string     `json:"match"`
	Params  []string   `json:"params"`
	Hot     string     `json:"hot"`
	Limit   *limitView `json:"limit"`  // null: the rule only detects
	Values  int        `json:"values"` // keys with a limit of their own
	Cache   bool       `json:"cache"`
	HotKeys int        `json:"hot_keys"` // that are hot now
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
}

// getRunning lists the rules that this program runs, with the limits in force: GET /v1/rules/running.
func (s *Service) getRunning(w http.ResponseWriter, r *http.Request) error {
	s.readReports(r.Context(), s.cfg.Now())
	set, bounds, hot := s.cfg.Rules(), s.adaptiveBounds(), map[string]int{}
	for _, h := range s.hotKeys() {
		hot[h.Rule]++
	}
	list := make([]Rule, len(set.Rules))
	for i, r := range set.Rules {
		list[i] = Rule{Name: r.Name, Match: matchText(r), Params: paramNames(r), Hot: r.Hot.String(),
			Limit: bounds.viewLimit(r.Limit), Values: len(r.Values), Cache: r.Cache != nil, HotKeys: hot[r.Name]}
	}
	for _, n := range s.ruleNotes() {
		i := slices.IndexFunc(list, func(r Rule) bool { return r.Name == n.Rule })
		if i >= 0 { // if i < 0, the rules have just changed
			list[i].Note = n.Text
		}
	}
	clients := []ClientRule{viewClients("", set.IP.Fixed, set.IP.Sliding, set.IP.InFlight)}
	for _, c := range set.Classes {
		clients = append(clients, viewClients(c.Name, cmp.Or(c.Fixed, set.IP.Fixed), cmp.Or(c.Sliding, set.IP.Sliding),
			cmp.Or(c.InFlight, set.IP.InFlight)))
	}
	return web.WriteJSON(w, http.StatusOK, map[string]any{"at": s.cfg.Now(), "rules": list, "clients": clients,
		"overrides": len(set.Overrides), "central": s.cfg.CentralRules, "processes": s.reportingProcesses(set)})
}

func viewClients(class string, fixed, sliding *rules.IPWindow, inFlight *rules.InFlight) ClientRule {
	c := ClientRule{Class: class}
	if fixed != nil {
		c.Fixed = viewWindow(fixed)
	}
	if sliding != nil {
		c.Sliding = viewWindow(sliding)
	}
	if inFlight != nil {
		c.InFlight = adaptiveBounds{}.viewLimit(rules.Limit{InFlight: inFlight})
	}
	return c
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
