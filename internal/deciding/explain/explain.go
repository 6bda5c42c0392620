// Package explain describes how rules and overrides judge a request, and why, for hotparam explain and
// Pipeline.Explain. It decides no request, and counts and charges nothing.
package explain

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// State holds the rules, overrides and hot keys at a moment.
type State struct {
	Rules *rules.Set
	// Live are the overrides beside the overrides of Rules.
	Live []rules.Override
	At   time.Time
	// IsHot reports whether a key is hot; if it is nil, no key is hot.
	IsHot func(key hottype.Key) bool
	// Verified reports whether the client of the request belongs to one of some domains; if it is nil, the client
	// belongs to no domain.
	Verified func(domains string) bool
}

// Explain returns an explanation for each key of a request, or one explanation without a rule if no rule matches.
func (s *State) Explain(req *hottype.Request) []hottype.Explanation {
	var base hottype.Explanation
	class := s.Rules.ClassOf(req, s.Verified)
	if class != nil {
		base.Class = class.Name
	}
	if !req.Client.IsZero() {
		base.Client = s.Rules.IP.ClientOf(req.Client).String()
	}
	index := rules.NewOverrides(s.Rules.Overrides, s.Live)
	ofClient, clients := s.clientOverride(index, req.Client, base.Class)
	clients = append(clients, clientLimits(s.Rules, class)...)
	base.Override = idOf(ofClient)
	if s.Rules.HasLongPath(req) {
		base.Limits = append([]string{"denied as malformed, but for exempt clients: the path has more than " +
			strconv.Itoa(s.Rules.QueryBounds.PathBytes) + " bytes (query_bounds.path_bytes)"}, clients...)
		return []hottype.Explanation{base}
	}
	matches := s.Rules.Match(req, new(rules.Scratch))
	if len(matches) == 0 {
		base.Limits = append([]string{"no rule matches: not counted"}, clients...)
		return []hottype.Explanation{base}
	}
	out := make([]hottype.Explanation, 0, len(matches))
	for i, m := range matches {
		e, key := base, hottype.Key(m.Key)
		for j, other := range matches {
			if j != i && other.Rule == m.Rule {
				e.Also = append(e.Also, hottype.Key(other.Key))
			}
		}
		e.Rule, e.Key, e.Malformed, e.ParseAs = m.Rule.Name, key, m.Malformed, m.Rule.ParseAs.String()
		e.Hot = s.IsHot != nil && s.IsHot(key)
		ofKey, limits := s.keyLimits(index, m.Rule, key)
		if ofClient == nil || ofClient.Action != rules.ActionBlock {
			e.Override = cmp.Or(idOf(ofKey), e.Override)
		}
		e.Limits = slices.Concat(limits, ruleWindowTexts(m.Rule, class), clients)
		out = append(out, e)
	}
	return out
}

// idOf returns the ID of an override, or "" for nil.
func idOf(o *rules.Override) string {
	if o == nil {
		return ""
	}
	return cmp.Or(o.ID, o.DefaultID())
}
