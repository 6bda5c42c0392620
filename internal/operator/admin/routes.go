package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/serving/access"
)

// handler answers one route. An error becomes problem+json, so it must come
// before the first byte of the answer.
type handler func(http.ResponseWriter, *http.Request) error

// route is one path and what it answers by method. The table is the single
// list of what is served; openapi.json is tested against it.
type route struct {
	path    string // ServeMux pattern without a method
	methods map[string]handler
	open    bool // answers without a token
	// role is the least that may use the methods that change something; 0: operator.
	// Viewers may read every route.
	role access.Role
}

// needs is the least role that a method needs.
func (r route) needs(method string) access.Role {
	if method == http.MethodGet || r.open {
		return access.Viewer
	}
	return max(r.role, access.Operator)
}

// needs is a handler of a program that has what it takes.
func needs(has func() error, answer handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := has(); err != nil {
			return err
		}
		return answer(w, r)
	}
}

func (s *Server) routes() []route {
	get := func(path string, h handler) route {
		return route{path: path, methods: map[string]handler{http.MethodGet: h}}
	}
	post := func(path string, h handler) route {
		return route{path: path, methods: map[string]handler{http.MethodPost: h}}
	}
	open := func(r route) route { r.open = true; return r }
	put := needs(s.writable, s.putOverride)
	routes := []route{
		get("/v1/hot", s.getHot),
		get("/v1/keys/{key...}", s.getKey),
		get("/v1/keys/{key}/seconds", s.getSeconds),
		get("/v1/keys/{key}/what-if", s.getWhatIf),
		post("/v1/keys/{key}/purge", s.purgeKey),
		post("/v1/keys/{key}/reset", s.resetKey),
		post("/v1/clients/{client}/reset", s.resetClient),
		{path: "/v1/overrides", methods: map[string]handler{http.MethodGet: s.listOverrides, http.MethodPut: put}},
		{path: "/v1/overrides/{id}", methods: map[string]handler{http.MethodGet: s.getOverride, http.MethodPut: put,
			http.MethodDelete: needs(s.writable, s.deleteOverride)}},
		post("/v1/overrides/{id}/undo", needs(s.writable, s.undoOverride)),
		post("/v1/overrides/{id}/enforce", needs(s.writable, s.enforceOverride)),
		get("/v1/limiters", s.getLimiters),
		{path: "/v1/rules", methods: map[string]handler{http.MethodGet: needs(s.central, s.getRules),
			http.MethodPut: needs(s.central, s.putRules)}, role: access.Admin},
		{path: "/v1/rules/trial", methods: map[string]handler{
			http.MethodDelete: needs(s.central, s.endTrial)}, role: access.Admin},
		get("/v1/rules/history", s.getRulesHistory),
		get("/v1/rules/history/{version}", s.getRevision),
		get("/v1/audit", s.getAudit),
		{path: "/v1/history", methods: map[string]handler{http.MethodGet: needs(s.keeps, s.getHistory),
			http.MethodDelete: needs(s.keeps, s.purgeHistory)}, role: access.Admin},
		get("/v1/history/heatmap", needs(s.keeps, s.getHeatmap)),
		get("/v1/upstreams", s.getUpstreams),
		get("/v1/notifications", s.getNotifications),
		{path: "/v1/notifications/test", methods: map[string]handler{
			http.MethodPost: s.testNotifications}, role: access.Admin},
		get("/v1/events", s.getEvents),
		get("/v1/caller", s.getCaller),
		get("/metrics", func(w http.ResponseWriter, r *http.Request) error {
			s.cfg.Metrics.ServeHTTP(w, r)
			return nil
		}),
		open(get("/livez", s.getLive)),
		open(get("/readyz", s.getReady)),
	}
	for _, f := range s.files {
		routes = append(routes, get(f.route, f.serve))
	}
	return routes
}

// mux builds the routes' multiplexer. Routes are registered without a method,
// because the answers to a wrong one are ours too.
func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		h := s.dispatch(r)
		if !r.open {
			h = s.requireCaller(h)
		}
		mux.Handle(r.path, h)
	}
	mux.Handle("/", s.requireCaller(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, newProblem(http.StatusNotFound, "there is nothing at "+r.URL.Path, "see /openapi.json"))
	})))
	return mux
}

func (s *Server) dispatch(r route) http.Handler {
	allow := make([]string, 0, len(r.methods)+1)
	for m := range r.methods {
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
		h, ok := r.methods[method]
		if !ok {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			writeProblem(w, newProblem(http.StatusMethodNotAllowed,
				req.Method+" is not answered here", "use "+strings.Join(allow, " or ")))
			return
		}
		if c := callerOf(req); !r.open && c.Role < r.needs(method) {
			writeProblem(w, mayNot(c, r.needs(method)))
			return
		}
		if err := h(w, req); err != nil {
			s.writeError(w, req, err)
		}
	})
}

// writeError tells the caller what went wrong, and the log where it is ours.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	p := asProblem(err)
	if p.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.cfg.Log.Error("admin: request failed", "method", r.Method, "route", r.Pattern, "err", err)
	}
	writeProblem(w, p)
}
