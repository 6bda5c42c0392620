package admin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
)

// checkTimeout bounds each check of /readyz.
const checkTimeout = 2 * time.Second

// check is the outcome of one readiness check. Only callers with the token
// see Error: it may name inner addresses.
type check struct {
	OK     bool    `json:"ok"`
	Error  string  `json:"error,omitempty"`
	TookMS float64 `json:"took_ms"`
}

// getLive answers as long as the process serves at all.
func (s *Server) getLive(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteJSON(w, http.StatusOK, map[string]any{"ok": true})
}

// getReady runs every check at once: 200 when all pass, else 503. With ?verbose it
// the response has more than what readiness depends on.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) error {
	checks, known := s.runChecks(r.Context()), s.isKnown(r)
	ready, status := true, http.StatusOK
	for name, c := range checks {
		if !c.OK {
			ready, status = false, http.StatusServiceUnavailable
		}
		if !known {
			c.Error = ""
			checks[name] = c
		}
	}
	answer := map[string]any{"ready": ready, "checks": checks}
	if r.URL.Query().Has("verbose") {
		answer["status"] = s.verbose(known)
	}
	return web.WriteJSON(w, status, answer)
}

// isKnown reports whether the caller may see details. A probe without a token is not
// counted as a wrong one.
func (s *Server) isKnown(r *http.Request) bool {
	return (s.access.AllowsAll() || r.Header.Get("Authorization") != "") && s.access.Check(r, s.cfg.Now()).Status == 0
}

// verbose is the status line of the dashboard: what is well and what is not, also
// where a program is ready all the same. Values may name inner addresses.
func (s *Server) verbose(values bool) []Status {
	list := []Status{}
	if s.cfg.Status != nil {
		list = append(list, s.cfg.Status()...)
	}
	if !values {
		for i := range list {
			list[i].Value = ""
		}
	}
	return list
}

func (s *Server) runChecks(ctx context.Context) map[string]check {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var mu sync.Mutex // guards done
	done := make(map[string]check, len(s.cfg.Ready))
	var wg sync.WaitGroup
	for name, f := range s.cfg.Ready {
		wg.Go(func() {
			begin := time.Now()
			err := f(ctx)
			c := check{OK: err == nil, TookMS: float64(time.Since(begin).Microseconds()) / 1000}
			if err != nil {
				c.Error = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			done[name] = c
		})
	}
	wg.Wait()
	return done
}

// getUpstreams lists the upstreams that adaptive limits follow.
func (s *Server) getUpstreams(w http.ResponseWriter, _ *http.Request) error {
	list := []hottype.UpstreamLimit{}
	if s.cfg.Upstreams != nil {
		list = append(list, s.cfg.Upstreams()...)
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]hottype.UpstreamLimit{"upstreams": list})
}
