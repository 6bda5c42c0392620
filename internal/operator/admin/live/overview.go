package live

import (
	"cmp"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxHottest is how many keys Hottest gives.
const maxHottest = 100

// Overview is what the server sees, over all limiters. The totals count from the
// start of this process.
type Overview struct {
	Allowed  uint64          `metric:"hotparam_namespace_allowed_total" help:"Requests that all limiters of the namespace allowed since this process started. Each program shows the total: do not sum over instances."`
	Denied   hottype.Denials `metric:"hotparam_namespace_denied_total" help:"Requests that all limiters of the namespace denied since this process started, by reason. Each program shows the total: do not sum over instances."`
	Limiters int             `metric:"hotparam_namespace_limiters" help:"Limiters that reported within the last 5 seconds."`
	HotKeys  int             `metric:"hotparam_namespace_hot_keys" help:"Keys of the namespace that are hot, as this program sees it."`
	Loops    int             `metric:"hotparam_namespace_loops" help:"Keys of the namespace over their threshold because of one or a few clients; not hot, not limited."`
	// Rules says what is hot by the name of the rule. Every rule in force is there.
	Rules map[string]RuleOverview `label:"rule"`
}

// RuleOverview is what is hot by one rule.
type RuleOverview struct {
	HotKeys int     `metric:"hotparam_namespace_rule_hot_keys" help:"Keys of the namespace that are hot, by rule."`
	HotRate float64 `metric:"hotparam_namespace_rule_hot_rate" help:"Requests per second of all of the rule's hot keys in the namespace."`
}

// Overview reads the sampler's totals and the hot list of now.
func (s *Service) Overview() Overview {
	now, hot := s.cfg.Now(), s.cfg.Hot()
	s.mu.Lock()
	total, limiters := s.rates.total, s.rates.now(now).Limiters
	s.mu.Unlock()
	return Overview{
		Allowed: total.Allowed, Denied: total.Denied, Limiters: limiters,
		HotKeys: len(hot), Loops: len(s.loops()), Rules: s.byRule(hot),
	}
}

// byRule sums what is hot. A rule that is not in force here, as in the moment of a reload, has no sum.
func (s *Service) byRule(hot []hottype.HotKey) map[string]RuleOverview {
	sums := map[string]RuleOverview{}
	for _, r := range s.cfg.Rules().Rules {
		sums[r.Name] = RuleOverview{}
	}
	for _, h := range hot {
		if sum, ok := sums[h.Rule]; ok {
			sums[h.Rule] = RuleOverview{HotKeys: sum.HotKeys + 1, HotRate: sum.HotRate + h.Rate}
		}
	}
	return sums
}

// Hottest gives the 100 hot keys with the highest rates, each key of a rule once.
func (s *Service) Hottest() []hottype.HotKey { return hottest(s.cfg.Hot(), maxHottest) }

// hottest gives the most keys with the highest rate, each key of a rule once: equal
// series fail a scrape.
func hottest(hot []hottype.HotKey, most int) []hottype.HotKey {
	sorted := slices.Clone(hot)
	slices.SortStableFunc(sorted, func(a, b hottype.HotKey) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key))
	})
	type id struct{ key, rule string }
	seen := map[id]bool{}
	sorted = slices.DeleteFunc(sorted, func(h hottype.HotKey) bool {
		k := id{string(h.Key), h.Rule}
		was := seen[k]
		seen[k] = true
		return was
	})
	return sorted[:min(len(sorted), most)]
}
