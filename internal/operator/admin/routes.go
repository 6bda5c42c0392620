package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

// routes are all routes: those of the packages below, and those of the listener itself.
func (s *Server) routes() []web.Route {
	open := func(r web.Route) web.Route { r.Open = true; return r }
	routes := slices.Concat(s.Routes(), s.changes.Routes(), s.past.Routes(), []web.Route{
		web.Get("/v1/upstreams", s.getUpstreams),
		web.Get("/v1/notifications", s.getNotifications),
		{Path: "/v1/notifications/test", Methods: map[string]web.Handler{
			http.MethodPost: s.testNotifications}, Role: auth.Admin},
		web.Get("/v1/caller", s.getCaller),
		web.Get("/metrics", func(w http.ResponseWriter, r *http.Request) error {
			s.cfg.Metrics.ServeHTTP(w, r)
			return nil
		}),
		open(web.Get("/livez", s.getLive)),
		open(web.Get("/readyz", s.getReady)),
	})
	for _, f := range s.files {
		routes = append(routes, web.Get(f.route, f.serve))
	}
	return routes
}

// mux builds the routes' multiplexer. Routes are registered without a method,
// because the answers to a wrong one are ours too.
func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		h := s.dispatch(r)
		if !r.Open {
			h = s.requireCaller(h)
		}
		mux.Handle(r.Path, h)
	}
	mux.Handle("/", s.requireCaller(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.WriteProblem(w, web.NewProblem(http.StatusNotFound, "there is nothing at "+r.URL.Path, "see /openapi.json"))
	})))
	return mux
}

func (s *Server) dispatch(r web.Route) http.Handler {
	allow := make([]string, 0, len(r.Methods)+1)
	for m := range r.Methods {
		allow = append(allow, m)
		if m == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		method := req.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		h, ok := r.Methods[method]
		if !ok {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			web.WriteProblem(w, web.NewProblem(http.StatusMethodNotAllowed,
				req.Method+" is not answered here", "use "+strings.Join(allow, " or ")))
			return
		}
		if c := web.CallerOf(req); !r.Open && c.Role < r.Needs(method) {
			web.WriteProblem(w, forbidden(c, r.Needs(method)))
			return
		}
		if err := h(w, req); err != nil {
			s.writeError(w, req, err)
		}
	})
}

// writeError responds with an error, and logs it if it is ours.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	p := web.AsProblem(err)
	if p.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.cfg.Log.Error("admin: request failed", "method", r.Method, "route", r.Pattern, "err", err)
	}
	web.WriteProblem(w, p)
}
