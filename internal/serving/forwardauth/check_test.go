package forwardauth

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/logbound"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// gate denies ids that are hot, and records the requests about which it was asked.
type gate struct{ asked []string }

func (g *gate) DecideForGateway(_ context.Context, _ time.Time, r *hottype.Request) hottype.Verdict {
	g.asked = append(g.asked, fmt.Sprint(r.Method, " ", r.Host, " ", r.Target, " ", r.Client))
	v := hottype.Verdict{
		Allowed: !strings.Contains(r.Target, "hot"), Reason: hottype.ReasonHot, Rule: "topic",
		Key: "topic?id=\x01é\"\\", Hot: true,
		Limit: 9, Remaining: 3, Window: time.Second, ResetAfter: time.Second, Mode: hottype.ModeEnforce,
		Pass: &hottype.Pass{Name: "hotparam_0a1b", Value: "pass"},
	}
	if !v.Allowed {
		v.RetryAfter = 1500 * time.Millisecond
	}
	return v
}

func (g *gate) last() string {
	if len(g.asked) == 0 {
		return ""
	}
	return g.asked[len(g.asked)-1]
}

// proxies trusts the proxies in front of the gateway.
func proxies() *httplimit.Clients {
	return httplimit.NewClients([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, "")
}

func newHandler(t *testing.T, cfg Config) (*Handler, *gate) {
	t.Helper()
	g := new(gate)
	cfg.Gate = g
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h, g
}

// checkOf is a check as a gateway sends it: the lines are fields.
func checkOf(method, target string, lines ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host, r.RemoteAddr = "hotparam", "192.0.2.250:1234" // the gateway's address, which never counts
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// described returns the check of each dialect's gateway for PUT /topic?id=42 by client 192.0.2.7.
func described(d Dialect, target string, more ...string) *http.Request {
	switch d {
	case Nginx:
		return checkOf("GET", "/check", append(more, "X-Original-URI: "+target, "X-Original-Method: PUT",
			"X-Original-Host: news.example", "X-Real-IP: 192.0.2.7")...)
	case IngressNginx:
		return checkOf("GET", "/check", append(more, "X-Original-URL: https://news.example"+target,
			"X-Original-Method: PUT", "X-Real-IP: 192.0.2.7")...)
	case Forwarded:
		return checkOf("GET", "/check", append(more, "X-Forwarded-Uri: "+target, "X-Forwarded-Method: PUT",
			"X-Forwarded-Host: news.example", "X-Forwarded-For: 192.0.2.7")...)
	}
	r := checkOf("PUT", "/check", append(more, "X-Forwarded-For: 192.0.2.7, 10.0.0.1")...)
	r.Host, r.RequestURI = "news.example", "/check"+target
	return r
}

func TestHandler_AnswersInEachDialect(t *testing.T) {
	t.Parallel()
	for _, d := range Dialects {
		h, g := newHandler(t, Config{Dialect: d, PathPrefix: "/check", Clients: proxies()})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, described(d, "/topic?id=42"))
		if w.Code != 200 || g.last() != "PUT news.example /topic?id=42 192.0.2.7" {
			t.Errorf("%s: %d, asked %q", d, w.Code, g.last())
		}
		wantHeader(t, w, "X-Hotparam-Reason: hot", "X-Hotparam-Rule: topic", "X-Hotparam-Key: topic?id=%01%C3%A9%22%5C",
			"X-Hotparam-Hot: true",
			`RateLimit: "topic";r=3;t=1`, `RateLimit-Policy: "topic";q=9;w=1`, "Cache-Control: no-store",
			"Retry-After: ", "X-Hotparam-Retry-Ms: ", "Set-Cookie: ")

		w = httptest.NewRecorder()
		h.ServeHTTP(w, described(d, "/topic?id=hot"))
		if want := map[Dialect]int{Nginx: 403, IngressNginx: 403, Forwarded: 429, Path: 429}[d]; w.Code != want {
			t.Errorf("%s: %d, want %d", d, w.Code, want)
		}
		wantHeader(t, w, "X-Hotparam-Reason: hot", `RateLimit: "topic";r=3;t=2`, `RateLimit-Policy: "topic";q=9;w=1`,
			"Retry-After: 2", "X-Hotparam-Retry-Ms: 1500", "Content-Type: application/problem+json",
			"Cache-Control: no-store")
		if got, want := h.Stats(), (Stats{Checks: 2, Denied: 1}); got != want {
			t.Errorf("%s: %+v", d, got)
		}
	}
}

// A denial hands the client its pass, in a cookie for TLS if the gateway states that the client uses TLS.
func TestHandler_HandsOutPasses(t *testing.T) {
	t.Parallel()
	const attributes = "hotparam_0a1b=pass; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"
	plain, secure := "Set-Cookie: "+attributes, "Set-Cookie: __Host-"+attributes+"; Secure"
	for _, d := range Dialects {
		h, _ := newHandler(t, Config{Dialect: d, PathPrefix: "/check", Clients: proxies()})
		for proto, want := range map[string]string{"https": secure, "http": plain, "": plain} {
			w, check := httptest.NewRecorder(), described(d, "/topic?id=hot", "X-Forwarded-Proto: "+proto)
			if d == IngressNginx {
				check.Header.Set("X-Original-URL", cmp.Or(proto, "http")+"://news.example/topic?id=hot")
			}
			h.ServeHTTP(w, check)
			wantHeader(t, w, want, "Cache-Control: no-store")
		}
	}
}

func wantHeader(t *testing.T, w *httptest.ResponseRecorder, lines ...string) {
	t.Helper()
	for _, line := range lines {
		name, want, _ := strings.Cut(line, ": ")
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A check that its gateway did not describe is an error, never an allowed request, because a missing or repeated field
// may be the client's.
func TestHandler_RejectsWrongChecks(t *testing.T) {
	t.Parallel()
	good := map[Dialect][]string{
		Nginx: {
			"X-Original-URI: /topic?id=1", "X-Original-Method: GET", "X-Original-Host: news.example",
			"X-Real-IP: 192.0.2.7",
		},
		IngressNginx: {
			"X-Original-URL: http://news.example/topic?id=1", "X-Original-Method: GET", "X-Real-IP: 192.0.2.7",
		},
		Forwarded: {
			"X-Forwarded-Uri: /topic?id=1", "X-Forwarded-Method: GET", "X-Forwarded-Host: news.example",
			"X-Forwarded-For: 192.0.2.7",
		},
	}
	for d, lines := range good {
		for i, line := range lines {
			name, _, _ := strings.Cut(line, ":")
			for _, put := range [][]string{nil, {name + ": "}, {line, line}} {
				if strings.HasSuffix(name, "-Host") && len(put) == 1 || name == "X-Forwarded-For" && len(put) == 2 {
					continue // a request without a host, and a list in two lines
				}
				sent := append(append(append([]string{}, lines[:i]...), put...), lines[i+1:]...)
				wantBad(t, d, 400, checkOf("GET", "/check", sent...))
			}
		}
		wantBad(t, d, 404, checkOf("GET", "/", lines...))
		wantBad(t, d, 404, checkOf("GET", "/check/topic?id=1", lines...))
	}
	wantBad(t, Nginx, 400, checkOf("GET", "/check", "X-Original-URI: /", "X-Original-Method: GET", "X-Original-Host: x",
		"X-Real-IP: me"))
	wantBad(t, Nginx, 400, checkOf("GET", "/check", good[IngressNginx]...))
	wantBad(t, IngressNginx, 400, checkOf("GET", "/check", good[Nginx]...))
	h, g := newHandler(t, Config{Dialect: Nginx})
	h.ServeHTTP(httptest.NewRecorder(), checkOf("GET", "/check", "X-Original-URI: ?id=1", "X-Original-Method: GET",
		"X-Original-Host: h", "X-Real-IP: 192.0.2.7"))
	if want := "GET h /?id=1 192.0.2.7"; g.last() != want {
		t.Errorf("asked %q, want %q", g.last(), want)
	}
	for _, url := range []string{"/topic?id=1", "http://news.example", "news.example/topic", "://",
		"http://h?x=1", "http://h?x=/", "http://a?b/topic?id=1"} {
		wantBad(t, IngressNginx, 400, checkOf("GET", "/check", "X-Original-URL: "+url, "X-Original-Method: GET",
			"X-Real-IP: 192.0.2.7"))
	}
	wantBad(t, Nginx, 400, checkOf("GET", "/check", good[Forwarded]...))
	wantBad(t, Forwarded, 400, checkOf("GET", "/check", good[Nginx]...))
	for _, target := range []string{"/topic?id=1", "/check", "/checked", "/", "*"} {
		r := checkOf("GET", "/")
		r.RequestURI = target
		wantBad(t, Path, 400, r)
	}
}

// Hosts that net/http would reject in a check's own Host, and the empty host of HTTP/1.0, are judged unchanged.
func TestHandler_KeepsAnyHost(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"", `a"b`, "ä.de", "u@h", "u:p@h:80", "a?b", "a#b", "a://b", "[::1]:80", "\xff", strings.Repeat("a", 8000),
	} {
		for d, line := range map[Dialect]string{
			Nginx: "X-Original-Host: " + host, IngressNginx: "X-Original-URL: http://" + host + "/topic?u=http://x/",
			Forwarded: "X-Forwarded-Host: " + host,
		} {
			if d == IngressNginx && strings.ContainsAny(host, "/?") {
				continue // nginx accepts no slash, and TestHandler_RejectsWrongChecks has the other
			}
			h, g := newHandler(t, Config{Dialect: d})
			server := httptest.NewServer(h)
			r := checkOf("GET", "/check", line, "X-Original-Method: GET", "X-Real-IP: 192.0.2.7",
				"X-Forwarded-Method: GET", "X-Forwarded-For: 192.0.2.7")
			r.Header["X-Forwarded-Uri"] = []string{"/topic?u=http://x/"}
			if d == Nginx {
				r.Header["X-Original-Uri"] = []string{"/topic?u=http://x/"}
			}
			if status := send(t, server.Listener.Addr().String(), r); status != 200 ||
				g.last() != "GET "+host+" /topic?u=http://x/ 192.0.2.7" {
				t.Errorf("%s: %d, asked %.100q", d, status, g.last())
			}
			server.Close()
		}
	}
}

func wantBad(t *testing.T, d Dialect, status int, r *http.Request) {
	t.Helper()
	h, g := newHandler(t, Config{Dialect: d, PathPrefix: "/check"})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	reason := w.Header().Get("X-Hotparam-Reason")
	if w.Code != status || len(g.asked) != 0 || reason != "bad_check" || h.Stats() != (Stats{Malformed: 1}) {
		t.Errorf("%s: %s %v: %d, %+v, asked %q", d, r.RequestURI, r.Header, w.Code, h.Stats(), g.asked)
	}
}

func TestNew_RejectsWrongSettings(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"ingress-nginx, forwarded": {Dialect: "envoy"},
		"must be 400 to 499":       {Dialect: Path, DenyStatus: 503},
		"must be 401 or 403":       {Dialect: Nginx, DenyStatus: 429},
		"dialect ingress-nginx":    {Dialect: IngressNginx, DenyStatus: 429},
	} {
		cfg.Gate = new(gate)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The token that the gateway shows is not the client's: no key and no log of a rule holds it.
func TestHandler_HidesAuthorization(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, Config{Dialect: Nginx, HideAuthorization: true})
	r := described(Nginx, "/topic", "Authorization: Bearer secret")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if r.Header.Get("Authorization") != "" {
		t.Error("the rules see the gateway's token")
	}
}

func TestHandler_LogsWrongChecksOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	h, _ := newHandler(t, Config{Dialect: Nginx, Log: logbound.Logger(textLog(&log))})
	for range 5 {
		h.ServeHTTP(httptest.NewRecorder(), checkOf("GET", "/check"))
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "X-Original-Uri") {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}
