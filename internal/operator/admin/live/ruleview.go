package live

import (
	"cmp"
	"net/http"
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
}

// ClientRule is what the rules say of every client, or of those of a class.
type ClientRule struct {
	Class    string     `json:"class"` // "": every client
	Fixed    *limitView `json:"fixed"`
	Sliding  *limitView `json:"sliding"`
	InFlight *limitView `json:"in_flight"`
}

// getRunning lists the rules that this program runs, with the limits in force: GET /v1/rules/running.
func (s *Service) getRunning(w http.ResponseWriter, _ *http.Request) error {
	set, force, hot := s.cfg.Rules(), s.inForce(), map[string]int{}
	for _, h := range s.hot() {
		hot[h.Rule]++
	}
	list := make([]Rule, len(set.Rules))
	for i, r := range set.Rules {
		list[i] = Rule{Name: r.Name, Match: matchText(r), Params: paramNames(r), Hot: r.Hot.String(),
			Limit: force.view(r.Limit), Values: len(r.Values), Cache: r.Cache != nil, HotKeys: hot[r.Name]}
	}
	clients := []ClientRule{viewClients("", set.IP.Fixed, set.IP.Sliding, set.IP.InFlight)}
	for _, c := range set.Classes {
		clients = append(clients, viewClients(c.Name, cmp.Or(c.Fixed, set.IP.Fixed), cmp.Or(c.Sliding, set.IP.Sliding),
			cmp.Or(c.InFlight, set.IP.InFlight)))
	}
	return web.WriteJSON(w, http.StatusOK, map[string]any{"at": s.cfg.Now(), "rules": list, "clients": clients,
		"overrides": len(set.Overrides), "central": s.cfg.CentralRules})
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
		c.InFlight = inForce{}.view(rules.Limit{InFlight: inFlight})
	}
	return c
}

// matchText is which requests a rule counts: "GET,POST example.org/topic".
func matchText(r *rules.Rule) string {
	if r.IsCatchAll() {
		return "what no other rule counts"
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
