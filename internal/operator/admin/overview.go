package admin

import (
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxHottest is how many hot keys an Overview names.
const maxHottest = 100

// Overview is what the server sees, over all limiters. The totals count from the
// start of this process.
type Overview struct {
	Allowed                  uint64
	Denied                   hottype.Denials
	Limiters, HotKeys, Loops int
	// Hottest are the hot keys with the highest rates, each key of a rule once.
	Hottest []hottype.Hot
}

// Overview reads the sampler's totals and the hot list of now.
func (s *Server) Overview() Overview {
	now, hot := s.cfg.Now(), s.cfg.Hot()
	s.mu.Lock()
	total, limiters := s.rates.total, s.rates.now(now).Limiters
	s.mu.Unlock()
	return Overview{
		Allowed: total.Allowed, Denied: total.Denied, Limiters: limiters,
		HotKeys: len(hot), Loops: len(s.loops()), Hottest: hottest(hot, maxHottest),
	}
}

// hottest gives the most keys with the highest rate, each key of a rule once: equal
// series fail a scrape.
func hottest(hot []hottype.Hot, most int) []hottype.Hot {
	sorted := slices.Clone(hot)
	slices.SortStableFunc(sorted, func(a, b hottype.Hot) int {
		switch {
		case a.Rate > b.Rate:
			return -1
		case a.Rate < b.Rate:
			return 1
		}
		return strings.Compare(string(a.Key), string(b.Key))
	})
	type id struct{ key, rule string }
	seen := map[id]bool{}
	sorted = slices.DeleteFunc(sorted, func(h hottype.Hot) bool {
		k := id{string(h.Key), h.Rule}
		was := seen[k]
		seen[k] = true
		return was
	})
	return sorted[:min(len(sorted), most)]
}
