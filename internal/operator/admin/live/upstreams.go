package live

import (
	"fmt"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
)

// inForce are the bounds that adaptive limits have now, by upstream.
type inForce map[string]hottype.UpstreamLimit

func (s *Service) inForce() inForce {
	m := inForce{}
	for _, u := range s.upstreams() {
		m[u.Name] = u
	}
	return m
}

// upstreams are those of adaptive limits, none where the program knows of none.
func (s *Service) upstreams() []hottype.UpstreamLimit {
	if s.cfg.Upstreams == nil {
		return nil
	}
	return s.cfg.Upstreams()
}

// Upstream is one that adaptive limits follow, as the API shows it.
type Upstream struct {
	hottype.UpstreamLimit
	// Missed is true if its target was missed when it was last measured, and that is not long ago.
	Missed bool `json:"missed"`
}

// measuredFor is how long a measurement of an upstream says something of now: without requests there is no other.
const measuredFor = 10 * time.Second

func (s *Service) viewUpstreams(now time.Time) []Upstream {
	list := []Upstream{}
	for _, u := range s.upstreams() {
		late := u.Target > 0 && u.MeasuredLatency > u.Target && now.Sub(u.At) < measuredFor
		list = append(list, Upstream{u, late || u.Unreachable})
	}
	return list
}

// getUpstreams lists the upstreams of adaptive limits: GET /v1/upstreams.
func (s *Service) getUpstreams(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteJSON(w, http.StatusOK, map[string]any{"upstreams": s.viewUpstreams(s.cfg.Now())})
}

// Status is the status line: that of the program, and the upstreams that miss their targets.
func (s *Service) Status() []Status {
	list := []Status{}
	if s.cfg.Status != nil {
		list = append(list, s.cfg.Status()...)
	}
	for _, u := range s.viewUpstreams(s.cfg.Now()) {
		if u.Missed {
			list = append(list, Status{Name: "upstream " + u.Name,
				Value: fmt.Sprintf("%.0f ms of %.0f ms", 1000*u.MeasuredLatency, 1000*u.Target)})
		}
	}
	return list
}
