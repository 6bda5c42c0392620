package admin

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

// allRoutes returns all routes: the routes of the packages below, and of the listener itself.
func (s *Server) allRoutes() []web.Route {
	open := func(r web.Route) web.Route { r.Open = true; return r }
	routes := slices.Concat(s.Routes(), s.changes.Routes(), s.past.Routes(), []web.Route{
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
	for _, view := range views {
		routes = append(routes, web.Get(view, servePage))
	}
	return routes
}

// newMux builds the routes' multiplexer. Routes are registered without a method, because the server also answers wrong
// methods itself.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range s.allRoutes() {
		h := s.dispatch(r)
		if !r.Open {
			h = s.requireCaller(h)
		}
		mux.Handle(r.Path, h)
	}
	mux.Handle("/", s.requireCaller(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.WriteProblem(w, web.NewProblem(http.StatusNotFound, "there is nothing at "+web.Quoted(r.URL.Path),
			"see /openapi.json"))
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
			web.WriteProblem(w, forbiddenProblem(c, r.Needs(method)))
			return
		}
		if strings.HasPrefix(r.Path, "/v1/") {
			s.Watch(req.Context())
		}
		if err := h(w, req); err != nil {
			s.writeError(w, req, err)
		}
	})
}

func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	p := web.AsProblem(err)
	if trouble := s.Trouble(); p.Status == http.StatusServiceUnavailable && s.cfg.Store != "" && trouble != "" {
		p.Detail = trouble // in one sentence; the log has the error
	}
	if p.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.cfg.Log.Error("admin: request failed", "method", r.Method, "route", r.Pattern, "err", err)
	}
	web.WriteProblem(w, p)
}

// Notifier sends events to webhooks. Package notify implements it.
type Notifier interface {
	// Webhooks returns the state of each webhook.
	Webhooks() []Webhook
	// Test sends a test event, requested by author, to the webhook of a name, or to all if name is "". It returns no
	// result if no webhook has the name.
	Test(ctx context.Context, name, author string) []WebhookTest
}

// Webhook is the state of one webhook. Sent, Failed and Dropped count events since the start.
type Webhook struct {
	Name    string   `json:"name"`
	Format  string   `json:"format"`
	Events  []string `json:"events"`
	Sent    uint64   `json:"sent"`
	Failed  uint64   `json:"failed"`  // given up
	Dropped uint64   `json:"dropped"` // its queue was full
	Queued  int      `json:"queued"`
	// Error is the reason why the last attempt failed. It is absent after a success.
	Error string `json:"error,omitempty"`
	// At is the time of the last attempt. It is absent before the first.
	At time.Time `json:"last_attempt,omitzero"`
	// LostAt is the time at which events were last lost. It is absent if no event was lost. Losing is true within an
	// hour of it.
	LostAt time.Time `json:"last_loss,omitzero"`
	Losing bool      `json:"losing"`
}

type WebhookTest struct {
	Name   string  `json:"name"`
	OK     bool    `json:"ok"`
	Status int     `json:"status,omitempty"` // of HTTP; absent without a response
	Error  string  `json:"error,omitempty"`
	TookMS float64 `json:"took_ms"`
}

// getNotifications lists the webhooks: GET /v1/notifications.
func (s *Server) getNotifications(w http.ResponseWriter, _ *http.Request) error {
	list := []Webhook{}
	if s.cfg.Notify != nil {
		list = append(list, s.cfg.Notify.Webhooks()...)
	}
	return web.WriteJSON(w, http.StatusOK, map[string]any{"webhooks": list})
}

// testNotifications sends a test event: POST /v1/notifications/test?name=NAME&author=WHO. The status is 200 even if
// webhooks fail, which each result reports.
func (s *Server) testNotifications(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	name, results := q.Get("name"), []WebhookTest{}
	if s.cfg.Notify != nil {
		results = s.cfg.Notify.Test(r.Context(), name, web.Author(r))
	}
	if len(results) == 0 {
		if name == "" {
			return web.NewProblem(http.StatusNotFound, "this program has no webhook",
				"set notifications.webhooks of an aggregator or hotparam serve")
		}
		p := web.NewProblem(http.StatusNotFound, "there is no webhook of the name "+web.Quoted(name),
			"GET /v1/notifications lists them")
		p.Field = "name"
		return p
	}
	return web.WriteJSON(w, http.StatusOK, map[string]any{"results": results})
}

const checkTimeout = 2 * time.Second

// check is the result of one readiness check. Error is only for callers with the token, because it may name internal
// addresses.
type check struct {
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	// Tolerated is true for a failure that does not make the program unready.
	Tolerated bool    `json:"tolerated,omitempty"`
	TookMS    float64 `json:"took_ms"`
}

// Tolerated is the error of a check that fails while the program still answers. It is shown, and the program stays
// ready.
type Tolerated struct{ error }

// Tolerate returns err as an error that does not make a program unready.
func Tolerate(err error) error { return Tolerated{err} }

// getLive answers as long as the process serves at all.
func (s *Server) getLive(w http.ResponseWriter, _ *http.Request) error {
	return web.WriteJSON(w, http.StatusOK, map[string]any{"ok": true})
}

// getReady runs every check at once. The status is 200 if all of Config.Ready pass, and 503 otherwise. With ?verbose
// the response also has the status line, on which readiness does not depend.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) error {
	checks, known := s.runChecks(r.Context()), s.isKnown(r)
	ready, status := true, http.StatusOK
	for name, c := range checks {
		if !c.OK && !c.Tolerated && s.cfg.Ready[name] != nil {
			ready, status = false, http.StatusServiceUnavailable
		}
		if !known {
			c.Error = ""
			checks[name] = c
		}
	}
	answer := map[string]any{"ready": ready, "checks": checks}
	if r.URL.Query().Has("verbose") {
		answer["status"] = s.statusLine(known)
	}
	return web.WriteJSON(w, status, answer)
}

// isKnown reports whether the caller may see details. A probe without a token does not count as a wrong token.
func (s *Server) isKnown(r *http.Request) bool {
	return (s.access.AllowsAll() || r.Header.Get("Authorization") != "") && s.access.Check(r, s.cfg.Now()).Status == 0
}

// statusLine returns the status line of the dashboard, which also shows failures with which a program is ready. Values
// may name internal addresses.
func (s *Server) statusLine(values bool) []Status {
	list := s.Status()
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
	all := maps.Clone(s.cfg.Parts)
	if all == nil {
		all = map[string]func(context.Context) error{}
	}
	maps.Copy(all, s.cfg.Ready)
	done := make(map[string]check, len(all))
	var wg sync.WaitGroup
	for name, f := range all {
		wg.Go(func() {
			begin := time.Now()
			err := f(ctx)
			c := check{OK: err == nil, TookMS: float64(time.Since(begin).Microseconds()) / 1000}
			if err != nil {
				_, c.Tolerated = errors.AsType[Tolerated](err)
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
