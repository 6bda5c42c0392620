package admin

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/serving/access"
)

// csp lets the page load its own files and nothing else, and forbids the calls
// that turn strings into HTML.
const csp = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// guard is what every request passes first: headers that bind the browser, the
// name it was called by, and whether another site sent it.
func (s *Server) guard(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, newProblem(http.StatusForbidden, "a change asked for by another site is refused",
			"call the API from its own dashboard, or without an Origin header"))
	}))
	next = cross.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count.requests.Add(1)
		setSecurityHeaders(w.Header())
		if !s.knownHost(r.Host) {
			s.count.foreignHosts.Add(1)
			writeProblem(w, newProblem(http.StatusMisdirectedRequest, "host "+quoted(r.Host)+" is not a name of this API",
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

// knownHost guards against DNS rebinding, where a page of another site makes
// its own name point at loopback. With a token that page has no credentials, so
// every name is fine.
func (s *Server) knownHost(host string) bool {
	if s.cfg.Token != "" {
		return true
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return access.IsLoopback(host) || slices.ContainsFunc(s.cfg.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// requireToken lets through who shows the token. Browsers are asked for it by
// basic authentication and then send it with the event stream too.
func (s *Server) requireToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.token.Check(r, s.cfg.Now())
		if v.Status != 0 {
			v.SetHeader(w.Header())
			writeProblem(w, newProblem(v.Status, v.Detail(),
				"send \"Authorization: Bearer TOKEN\", or the token as the password of basic authentication"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// author is who a change is written down for: the one named in the request,
// else the user of basic authentication.
func author(r *http.Request, named string) string {
	if named != "" {
		return named
	}
	user, _, _ := r.BasicAuth()
	return user
}
