package admin

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

// csp lets the page load its own files and nothing else, and forbids the calls that turn strings into HTML.
const csp = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// guardHandler wraps the handler of all requests. It sets headers that restrict the browser, checks the name by which
// the listener was called, and rejects changes that another site sent.
func (s *Server) guardHandler(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.WriteProblem(w, web.NewProblem(http.StatusForbidden, "a change asked for by another site is rejected",
			"call the API from its own dashboard, or without an Origin header"))
	}))
	next = cross.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		setSecurityHeaders(w.Header())
		if s.access.AllowsAll() && !auth.IsLoopbackHost(r.Host) {
			s.foreignHosts.Add(1)
			web.WriteProblem(w, web.NewProblem(http.StatusMisdirectedRequest,
				"host "+web.Quoted(r.Host)+" is not a name of this API",
				"call it as localhost or by a loopback address, or set a token: then every name will do"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", csp)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// requireCaller passes on the requests of known callers. Browsers are asked for a token by basic authentication and
// then send it with the event stream too. A request ends when its token expires, which only streams live long enough to
// reach.
func (s *Server) requireCaller(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.access.Check(r, s.cfg.Now())
		if v.Status != 0 {
			v.SetHeader(w.Header())
			if v.Status == http.StatusUnauthorized && asksNoPassword(r) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="hotparam"`)
			}
			web.WriteProblem(w, web.NewProblem(v.Status, v.Detail(),
				"send \"Authorization: Bearer TOKEN\", or the token as the password of basic authentication"))
			return
		}
		ctx := web.WithCaller(r.Context(), v.Caller)
		if left := v.Caller.Until.Sub(s.cfg.Now()); !v.Caller.Until.IsZero() {
			var end context.CancelFunc
			ctx, end = context.WithTimeout(ctx, left)
			defer end()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// asksNoPassword reports whether a refusal of a request carries no challenge for basic authentication, at which
// browsers ask for a password and keep the refusal from the page. So the dashboard learns that the credentials of its
// browser were refused, and can say it. A request without credentials gets the challenge unless it wants nothing but
// JSON, because browsers send the credentials that they know to a new path only then.
func asksNoPassword(r *http.Request) bool {
	switch r.Header.Get("Accept") {
	case "application/json":
		return true
	case "*/*", "text/event-stream": // as fetch and EventSource have it
		return r.Header.Get("Authorization") != ""
	}
	return false
}

func forbiddenProblem(c auth.Caller, needs auth.Role) *web.Problem {
	return web.NewProblem(http.StatusForbidden,
		cmp.Or(c.Name, "this caller")+" is "+c.Role.String()+" here, and this needs "+needs.String(),
		"use a token with the role "+needs.String()+": docs/security.md explains roles")
}

func (s *Server) getCaller(w http.ResponseWriter, r *http.Request) error {
	c := web.CallerOf(r)
	return web.WriteJSON(w, http.StatusOK, callerView{Name: c.Name, Role: c.Role.String(), Until: c.Until})
}

type callerView struct {
	Name  string    `json:"name,omitempty"` // of the token or the user; absent for a shared token or without tokens
	Role  string    `json:"role"`
	Until time.Time `json:"until,omitzero"` // when the token expires
}
