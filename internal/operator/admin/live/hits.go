package live

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
)

const (
	maxActive  = 1000        // keys that an override is compared with
	unmetAfter = time.Minute // in which an override of use has a hit
)

// ActiveKeys are the keys that are known to have requests, with their rates, heaviest first.
func (s *Service) ActiveKeys(now time.Time) []hottype.Hot {
	rates := map[hottype.Key]float64{}
	for key, sp := range s.speeds(now) {
		rates[key] = sp.Allowed + sp.Denied
	}
	lists := [][]hottype.Hot{s.loops(), s.cfg.Hot()}
	if s.cfg.Heaviest != nil {
		lists = append(lists, s.cfg.Heaviest(maxActive))
	}
	for _, list := range lists {
		for i := range list {
			rates[list[i].Key] = list[i].Rate
		}
	}
	active := make([]hottype.Hot, 0, len(rates))
	for key, rate := range rates {
		if rate > 0 {
			active = append(active, hottype.Hot{Key: key, Rate: rate})
		}
	}
	slices.SortFunc(active, func(a, b hottype.Hot) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key))
	})
	return active[:min(len(active), maxActive)]
}

// overrideHits are the decisions that an override was part of, and those that it would have
// denied in shadow mode.
type overrideHits struct {
	Total              uint64
	PerSecond          float64
	WouldDeny          uint64
	WouldDenyPerSecond float64
}

// AddHits adds to overrides their hits, with warnings, as far as limiters report.
func (s *Service) AddHits(list []changes.View, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hits, sum := s.rates.hits(now), s.rates.now(now)
	if !sum.Known {
		return
	}
	all := sum.Allowed
	for _, d := range sum.Denied {
		all += d
	}
	for i := range list {
		v := &list[i]
		h := hits[v.ID]
		v.Hits, v.HitsPerSecond = &h.Total, web.Rounded(h.PerSecond)
		if v.InShadow() {
			v.WouldDeny, v.WouldDenyPerSecond = &h.WouldDeny, web.Rounded(h.WouldDenyPerSecond)
		}
		switch {
		case h.Total == 0 && v.Active && now.Sub(v.Created) > unmetAfter:
			v.Warnings = []string{"no request has met it yet"}
		case !v.IsOneKey() && all > 0 && h.PerSecond > changes.BroadShare*all:
			v.Warnings = []string{fmt.Sprintf("%.0f %% of all requests meet it", 100*h.PerSecond/all)}
		}
	}
}
