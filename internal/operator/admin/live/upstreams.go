package live

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
)

// adaptiveBounds holds the present bounds of adaptive limits, by upstream.
type adaptiveBounds map[string]hottype.UpstreamLimit

func (s *Service) adaptiveBounds() adaptiveBounds {
	bounds := adaptiveBounds{}
	for _, u := range s.adaptiveUpstreams() {
		bounds[u.Name] = u
	}
	return bounds
}

// adaptiveUpstreams returns the upstreams of adaptive limits, or nil if the program does not know any.
func (s *Service) adaptiveUpstreams() []hottype.UpstreamLimit {
	if s.cfg.Upstreams == nil {
		return nil
	}
	return s.cfg.Upstreams()
}

// Upstream is an upstream of adaptive limits as the API shows it.
type Upstream struct {
	hottype.UpstreamLimit
	// Missed is true if the upstream missed its target when it was last measured, a short time ago, or cannot be
	// reached.
	Missed bool `json:"missed"`
}

// measuredFor is the time for which a measurement of an upstream is taken as present. Without requests there is no new
// one.
const measuredFor = 10 * time.Second

func (s *Service) viewUpstreams(now time.Time) []Upstream {
	list := []Upstream{}
	for _, u := range s.adaptiveUpstreams() {
		late := u.TargetSeconds > 0 && u.LatencySeconds > u.TargetSeconds && now.Sub(u.At) < measuredFor
		list = append(list, Upstream{u, late || u.Unreachable})
	}
	return list
}

// getUpstreams lists the upstreams of adaptive limits: GET /v1/upstreams.
func (s *Service) getUpstreams(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteJSON(w, http.StatusOK, map[string]any{"upstreams": s.viewUpstreams(s.cfg.Now())})
}

// Status returns the status line: the status of the program, and the upstreams that miss their targets.
func (s *Service) Status() []Status {
	list := []Status{}
	if s.cfg.Status != nil {
		list = append(list, s.cfg.Status()...)
	}
	s.mu.Lock()
	for _, f := range s.failingUpstreams(s.cfg.Now()) {
		list = append(list, Status{Name: "upstream " + f.name,
			Value: fmt.Sprintf("no answer, %d requests failed", f.n)})
	}
	s.mu.Unlock()
	for _, u := range s.viewUpstreams(s.cfg.Now()) {
		if u.Missed {
			list = append(list, Status{Name: "upstream " + u.Name,
				Value: fmt.Sprintf("%.0f ms of %.0f ms", 1000*u.LatencySeconds, 1000*u.TargetSeconds)})
		}
	}
	return list
}

// failingUpstream is an upstream that answers no request of some limiters.
type failingUpstream struct {
	name     string
	since    time.Time
	n        uint64
	limiters []string
}

// failingUpstreams returns the upstreams that fail every request of some limiter, by name. The caller holds mu.
func (s *Service) failingUpstreams(now time.Time) (list []failingUpstream) {
	for _, id := range slices.Sorted(maps.Keys(s.rates.instances)) {
		in := s.rates.instances[id]
		if now.Sub(in.heard) > quietAfter {
			continue
		}
		for _, f := range in.last.FailingUpstreams {
			i := slices.IndexFunc(list, func(u failingUpstream) bool { return u.name == f.Name })
			if i < 0 {
				i, list = len(list), append(list, failingUpstream{name: f.Name, since: f.Since})
			}
			u := &list[i]
			u.n, u.limiters = u.n+f.N, append(u.limiters, id)
			if f.Since.Before(u.since) {
				u.since = f.Since
			}
		}
	}
	slices.SortFunc(list, func(a, b failingUpstream) int { return strings.Compare(a.name, b.name) })
	return list
}

// failingTrouble returns a sentence for each upstream that fails every request. The caller holds mu.
func (s *Service) failingTrouble(now time.Time) (list []string) {
	for _, u := range s.failingUpstreams(now) {
		from := ""
		if len(u.limiters) < s.rates.totalSpeed(now).Limiters {
			from = fmt.Sprintf(" of %d limiters, such as %s", len(u.limiters), u.limiters[0])
		}
		list = append(list, fmt.Sprintf("The upstream %q fails every request%s since %s: %d so far. Clients get "+
			"errors, whatever the limits are.", u.name, from, u.since.UTC().Format("15:04:05 MST"), u.n))
	}
	return list
}
