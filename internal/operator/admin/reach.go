package admin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	lookedAt    = 1000        // keys that an override is compared with
	maxExamples = 5           // of them that are named
	muchShare   = 0.5         // of all requests: an override that holds more is doubted
	unmetAfter  = time.Minute // in which an override of use meets a request
)

// overrideReach is which of the keys that are asked for now an override holds.
type overrideReach struct {
	// Keys of LookedAt match it: those that the aggregator or the limiters know as the heaviest.
	Keys     int `json:"keys"`
	LookedAt int `json:"looked_at"`
	// PerSecond is how often they are asked for, Share their part of what is looked at, 0 to 1.
	PerSecond float64 `json:"requests_per_second"`
	Share     float64 `json:"share"`
	// Examples are the heaviest of them.
	Examples []hottype.Key `json:"examples"`
}

// reach compares an override with the keys that are known to be asked for. It is nil for one
// of clients, of whom only the heaviest are known, and where no key is known.
func (s *Server) reach(o rules.Override, now time.Time) *overrideReach {
	if o.OfClients() {
		return nil
	}
	asked := s.askedFor(now)
	if len(asked) == 0 {
		return nil
	}
	o.Until, o.Schedule, o.Mode = time.Time{}, rules.Schedule{}, "" // what it would hold while it does
	index := rules.NewOverrides(nil, []rules.Override{o})
	r := &overrideReach{LookedAt: len(asked), Examples: []hottype.Key{}}
	all := 0.0
	for _, h := range asked {
		all += h.Rate
		if index.Find([]byte(h.Key), now) == nil {
			continue
		}
		r.Keys++
		r.PerSecond += h.Rate
		if len(r.Examples) < maxExamples {
			r.Examples = append(r.Examples, h.Key)
		}
	}
	if all > 0 {
		r.Share = r.PerSecond / all
	}
	r.PerSecond, r.Share = *rounded(r.PerSecond), *rounded(r.Share)
	return r
}

// askedFor are the keys that are known to be asked for, with their rates, heaviest first.
func (s *Server) askedFor(now time.Time) []hottype.Hot {
	rates := map[hottype.Key]float64{}
	for key, sp := range s.speeds(now) {
		rates[key] = sp.Allowed + sp.Denied
	}
	lists := [][]hottype.Hot{s.loops(), s.cfg.Hot()}
	if s.cfg.Heaviest != nil {
		lists = append(lists, s.cfg.Heaviest(lookedAt))
	}
	for _, list := range lists {
		for i := range list {
			rates[list[i].Key] = list[i].Rate
		}
	}
	asked := make([]hottype.Hot, 0, len(rates))
	for key, rate := range rates {
		if rate > 0 {
			asked = append(asked, hottype.Hot{Key: key, Rate: rate})
		}
	}
	slices.SortFunc(asked, func(a, b hottype.Hot) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key))
	})
	return asked[:min(len(asked), lookedAt)]
}

// warnings say why the author of an override may not have meant it: it matches nothing, or much.
func (r *overrideReach) warnings() []string {
	switch {
	case r == nil:
		return nil
	case r.Keys == 0:
		return []string{fmt.Sprintf("it matches none of the %d keys that are asked for most now", r.LookedAt)}
	case r.Keys > 1 && r.Share > muchShare:
		return []string{
			fmt.Sprintf("it matches %d keys, %.0f %% of the requests for the %d keys that are asked for most now",
				r.Keys, 100*r.Share, r.LookedAt)}
	}
	return nil
}

// overrideHits are the decisions that an override was part of, and those that it would have
// denied in shadow mode.
type overrideHits struct {
	Total              uint64
	PerSecond          float64
	WouldDeny          uint64
	WouldDenyPerSecond float64
}

// met adds to overrides what they met, and what is doubtful about that, as far as limiters report.
func (s *Server) met(list []overrideView, now time.Time) {
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
		v.Hits, v.HitsPerSecond = &h.Total, rounded(h.PerSecond)
		if v.InShadow() {
			v.WouldDeny, v.WouldDenyPerSecond = &h.WouldDeny, rounded(h.WouldDenyPerSecond)
		}
		switch {
		case h.Total == 0 && v.Active && now.Sub(v.Created) > unmetAfter:
			v.Warnings = []string{"no request has met it yet"}
		case !v.IsOneKey() && all > 0 && h.PerSecond > muchShare*all:
			v.Warnings = []string{fmt.Sprintf("%.0f %% of all requests meet it", 100*h.PerSecond/all)}
		}
	}
}
