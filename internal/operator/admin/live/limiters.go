package live

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// lagsAfter is the time after which a limiter that lacks a change is shown as lagging. A limiter reports once a
	// second, and at once when it has a change.
	lagsAfter = 2 * time.Second
	// maxLagging is the number of lagging limiters that the state event names.
	maxLagging = 100
)

type Limiter struct {
	Instance string `json:"instance"`
	// Revision is the revision of the overrides that are in force there, by its last report.
	Revision int64 `json:"revision"`
	Current  bool  `json:"current"`
	// BehindMS is the time for which it has lacked a change, and Missing the minimum number of changes that it lacks.
	// Both are 0 if it is current.
	BehindMS int64 `json:"behind_ms,omitempty"`
	Missing  int   `json:"missing,omitempty"`
	// HeardMS is the time since its last report. Silent is true if that is too long, because it was killed or is cut
	// off.
	HeardMS int64 `json:"heard_ms_ago"`
	Silent  bool  `json:"silent,omitempty"`
}

// getLimiters lists the limiters and whether they have the present overrides: GET /v1/limiters.
func (s *Service) getLimiters(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	unread := s.readRevision(ctx)
	now := s.cfg.Now()
	s.readReports(r.Context(), now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if unread != nil && len(s.rates.instances) == 0 {
		return fmt.Errorf("admin: the revision of the overrides cannot be read: %w", unread)
	}
	a := map[string]any{"at": now, "revision": s.overrides.revision, "limiters": s.viewLimiters(now)}
	if unread != nil { // the state that was read last is shown
		a["trouble"] = strings.Join(s.storeTrouble(), "; ")
	}
	return web.WriteJSON(w, http.StatusOK, a)
}

func (s *Service) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overrides.revision
}

func (s *Service) readRevision(ctx context.Context) error {
	if s.cfg.Overrides == nil {
		return nil
	}
	revision, err := s.cfg.Overrides.Revision(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known := s.overrides.revision == revision
	s.mu.Unlock()
	if known {
		return nil
	}
	audit, err := s.cfg.Overrides.Audit(ctx, keepChanges)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overrides.revision, s.overrides.revisions = revision, revisionsOf(audit)
	return nil
}

// revisionsOf returns the revisions of an audit, each once, newest first.
func revisionsOf(audit []rules.Change) []int64 {
	list := make([]int64, len(audit))
	for i, c := range audit {
		list[i] = c.Revision
	}
	slices.Sort(list)
	slices.Reverse(list)
	return slices.Compact(list)
}

// viewLimiters returns all known limiters, the most lagging first. The caller holds mu.
func (s *Service) viewLimiters(now time.Time) []Limiter {
	list := []Limiter{}
	for id, in := range s.rates.instances {
		quiet := now.Sub(in.heard)
		v := Limiter{
			Instance: id, Revision: in.last.OverridesRevision,
			Current: in.last.OverridesRevision >= s.overrides.revision,
			HeardMS: max(quiet.Milliseconds(), 0), Silent: quiet > quietAfter,
		}
		if !v.Current {
			v.setBehind(now, s.overrides.revision, s.overrides.revisions)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b Limiter) int {
		return cmp.Or(cmp.Compare(b.BehindMS, a.BehindMS), cmp.Compare(a.Instance, b.Instance))
	})
	return list
}

// setBehind sets the number of missing changes and the time since which the oldest is missing. A revision is the time
// of its change in microseconds.
func (v *Limiter) setBehind(now time.Time, newest int64, revisions []int64) {
	oldest := newest
	v.Missing = 1
	for i, r := range revisions {
		if r <= v.Revision {
			break
		}
		oldest, v.Missing = min(oldest, r), i+1
	}
	v.BehindMS = max(now.Sub(time.UnixMicro(oldest)).Milliseconds(), 1)
}

// laggingLimiters returns the limiters that have lacked a change for longer than a change takes. The caller holds mu.
func (s *Service) laggingLimiters(now time.Time) []Limiter {
	list := slices.DeleteFunc(s.viewLimiters(now), func(v Limiter) bool {
		return v.BehindMS < lagsAfter.Milliseconds()
	})
	return list[:min(len(list), maxLagging)]
}

const (
	maxActive  = 1000        // keys with which an override is compared
	unmetAfter = time.Minute // time in which a useful override has a hit
)

// ActiveKeys returns the keys that are known to have requests, with their requests a second, heaviest first. The rate
// of a key whose rule counts another cost is that of its decisions, or 0 if no limiter reports it.
func (s *Service) ActiveKeys(now time.Time) []hottype.HotKey {
	rates, costly := map[hottype.Key]float64{}, map[hottype.Key]bool{}
	for key, sp := range s.keySpeeds(now) {
		rates[key] = sp.Allowed + sp.Denied
	}
	lists := [][]hottype.HotKey{s.loopKeys(), s.hotKeys()}
	if s.cfg.Heaviest != nil {
		lists = append(lists, s.withFullKeys(s.cfg.Heaviest(maxActive)))
	}
	for _, list := range lists {
		for i := range list {
			if h := &list[i]; h.Cost.IsRequests() {
				rates[h.Key] = h.Rate
			} else if h.Rate > 0 {
				costly[h.Key] = true
				rates[h.Key] += 0 // so that it is in the list
			}
		}
	}
	active := make([]hottype.HotKey, 0, len(rates))
	for key, rate := range rates {
		if rate > 0 || costly[key] {
			active = append(active, hottype.HotKey{Key: key, Rate: rate})
		}
	}
	slices.SortFunc(active, func(a, b hottype.HotKey) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key))
	})
	return active[:min(len(active), maxActive)]
}

// overrideHits counts the decisions in which an override took part, and the decisions that it would have denied in
// shadow mode.
type overrideHits struct {
	Total              uint64
	PerSecond          float64
	WouldDeny          uint64
	WouldDenyPerSecond float64
}

// AddHits adds to overrides their hits, with warnings, as far as limiters report them.
func (s *Service) AddHits(list []changes.View, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hits, sum := s.rates.hitsByOverride(now), s.rates.totalSpeed(now)
	if !sum.Known {
		return
	}
	all := sum.Allowed + sum.Served
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
