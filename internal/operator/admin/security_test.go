package admin

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestNew_RejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	good := newWorld(t, nil).cfg
	for says, change := range map[string]func(*Config){
		"Hot": func(c *Config) { c.Hot = nil }, "Rules": func(c *Config) { c.Rules = nil },
		"MaxStreams": func(c *Config) { c.MaxStreams = -1 },
		"token":      func(c *Config) { c.Access.Token = "s3cret-of-the-test\n" },
	} {
		bad := good
		change(&bad)
		if _, err := New(bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// everything is one target of each route.
var everything = []string{"/", "/assets/app.js", "/openapi.json", "/metrics", "/v1/hot", "/v1/keys/topic%3Fid=42",
	"/v1/overrides", "/v1/audit", "/v1/events", "/no/such/page"}

func TestHandler_NeedsTokenExceptForHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Access.Token = "s3cret-of-the-test" })
	basic := func(user, password string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for i, target := range everything {
		for _, wrong := range []string{"X: none", "Authorization: Bearer", "Authorization: Bearer s3cret-of-the-tes",
			"Authorization: Bearer s3cret-of-the-test1", "Authorization: s3cret-of-the-test",
			basic("s3cret-of-the-test", ""), basic("", "no")} {
			rec := w.ask(http.MethodGet, target, "", wrong, fmt.Sprintf("From: 192.0.2.%d:1", i))
			if rec.Code != http.StatusUnauthorized || len(rec.Header()["Www-Authenticate"]) != 2 {
				t.Errorf("%s with %q: %d", target, wrong, rec.Code)
			}
		}
		for _, right := range []string{"Authorization: Bearer s3cret-of-the-test",
			"Authorization: bearer s3cret-of-the-test", basic("ann", "s3cret-of-the-test"),
			basic("", "s3cret-of-the-test")} {
			if rec := w.ask(http.MethodHead, target, "", right); rec.Code == http.StatusUnauthorized {
				t.Errorf("%s with %q: %d", target, right, rec.Code)
			}
		}
	}
	for _, open := range []string{"/livez", "/readyz"} {
		if rec := w.ask(http.MethodGet, open, ""); rec.Code != http.StatusOK {
			t.Errorf("%s: %d", open, rec.Code)
		}
	}
	if rec := w.ask(http.MethodPut, "/v1/overrides", `{"key": "topic?id=1", "rate": 5}`,
		basic("ann", "s3cret-of-the-test")); !strings.Contains(rec.Body.String(), `"author":"ann"`) {
		t.Errorf("the user is not the author: %s", rec.Body)
	}
	if n := w.Stats().Unauthorized; n != uint64(7*len(everything)) {
		t.Errorf("%d counted", n)
	}
	// The page learns that the credentials of its browser are refused, and its browser does not ask for others.
	for accept, challenges := range map[string][2]int{"*/*": {2, 1}, "text/event-stream": {2, 1},
		"application/json": {1, 1}, "text/html,*/*;q=0.8": {2, 2}} {
		for i, shown := range []string{"X: none", basic("ann", "no")} {
			rec := w.ask(http.MethodGet, "/v1/caller", "", "Accept: "+accept, shown, "From: 192.0.2.99:1")
			if got := rec.Header()["Www-Authenticate"]; rec.Code != 401 || len(got) != challenges[i] {
				t.Errorf("Accept %s with %q: %d, %q", accept, shown, rec.Code, got)
			}
		}
	}
}

// Guesses of tokens are limited for the guesser only, also where health is answered without a token.
func TestHandler_LimitsGuessesOfTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		c.Access.Token = "s3cret-of-the-test"
		c.Ready = map[string]func(context.Context) error{
			"redis": func(context.Context) error { return errors.New("dial 10.1.2.3") }}
	})
	for range 10 {
		if rec := w.ask(http.MethodGet, "/readyz", "",
			"Authorization: Bearer wrong"); rec.Code != http.StatusServiceUnavailable {
			t.Errorf("health: %d", rec.Code)
		}
	}
	const right = "Authorization: Bearer s3cret-of-the-test"
	if rec := w.ask(http.MethodGet, "/readyz", "", right); !strings.Contains(rec.Body.String(), "10.1.2.3") {
		t.Errorf("wrong tokens lock the right one out: %s", rec.Body)
	}
	rec := w.ask(http.MethodGet, "/v1/hot", "", "Authorization: Bearer wrong")
	if rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") == "" ||
		!strings.Contains(rec.Body.String(), "Too many wrong tokens") {
		t.Errorf("after ten guesses: %d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	if s := w.Stats(); s.Unauthorized != 10 || s.RateLimited != 1 {
		t.Errorf("%+v", s)
	}
}

// A page whose name was made to point at loopback sends that name as its host.
func TestHandler_RejectsForeignHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for host, ok := range map[string]bool{
		"localhost": true, "localhost:7070": true, "127.0.0.1:7070": true, "[::1]:7070": true, "[::1]": true,
		"a.localhost":  true,
		"evil.example": false, "evil.example:7070": false, "127.0.0.1.evil.example": false,
		"localhost.evil.example": false, "": false, "10.0.0.1": false,
	} {
		rec := w.ask(http.MethodGet, "/v1/hot", "", "Host: "+host)
		if (rec.Code == http.StatusOK) != ok {
			t.Errorf("%q: %d %s", host, rec.Code, rec.Body)
		}
	}
	if n := w.Stats().ForeignHosts; n != 6 {
		t.Errorf("%d counted", n)
	}
	withToken := newWorld(t, func(c *Config) { c.Access.Token = "s3cret-of-the-test" })
	if rec := withToken.ask(http.MethodGet, "/v1/hot", "", "Host: ops.example.com",
		"Authorization: Bearer s3cret-of-the-test"); rec.Code != http.StatusOK {
		t.Errorf("with a token: %d", rec.Code)
	}
}

func TestHandler_OtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const body = `{"key": "topic?id=1", "action": "exempt"}`
	for _, c := range []struct {
		headers []string
		ok      bool
	}{
		{nil, true},
		{[]string{"Sec-Fetch-Site: same-origin", "Origin: http://localhost"}, true},
		{[]string{"Origin: http://localhost"}, true},
		{[]string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}, false},
		{[]string{"Sec-Fetch-Site: same-site", "Origin: http://localhost:9999"}, false},
		{[]string{"Origin: https://evil.example"}, false},
		{[]string{"Origin: null"}, false},
	} {
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPost} {
			target := map[string]string{"PUT": "/v1/overrides", "DELETE": "/v1/overrides/x",
				"POST": "/v1/overrides/x/undo"}[method]
			rec := w.ask(method, target, body, c.headers...)
			if (rec.Code != http.StatusForbidden) != c.ok {
				t.Errorf("%s with %q: %d %s", method, c.headers, rec.Code, rec.Body)
			}
		}
	}
}

func TestHandler_SetsSecurityHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, target := range append(everything, "/livez", "/readyz") {
		h := w.ask(http.MethodHead, target, "").Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'", "X-Content-Type-Options": "nosniff",
			"X-Frame-Options": "DENY",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if !strings.Contains(h.Get(name), want) {
				t.Errorf("%s: %s is %q", target, name, h.Get(name))
			}
		}
		if csp := h.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") ||
			!strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: %q", target, csp)
		}
	}
}

// No file of the page names anything elsewhere, and the page has no script, style or handler in its markup.
func TestDashboard_LoadsOnlyOwnFiles(t *testing.T) {
	t.Parallel()
	elsewhere := regexp.MustCompile(
		`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}|(?-i:url\()|@import|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(`)
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script(?:[^>]*)>[^<]|javascript:`)
	w := newWorld(t, nil)
	var page []byte
	for _, f := range w.files {
		if f.route == "/openapi.json" {
			continue
		}
		body := bytes.ReplaceAll(f.body, []byte("http://www.w3.org/2000/svg"), nil) // a name, not an address
		if m := elsewhere.Find(body); m != nil {
			t.Errorf("%s holds %q", f.route, m)
		}
		if f.route == "/{$}" {
			page = f.body
		}
	}
	if m := inline.Find(page); m != nil {
		t.Errorf("the page holds %q", m)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="(/[^"]*)"`).FindAllSubmatch(page, -1) {
		if rec := w.ask(http.MethodGet, string(m[1]), ""); rec.Code != http.StatusOK {
			t.Errorf("%s: %d", m[1], rec.Code)
		}
	}
}

func TestDashboardFiles_AreSentOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for target, kind := range map[string]string{"/": "text/html; charset=utf-8",
		"/assets/app.js": "text/javascript; charset=utf-8", "/assets/style.css": "text/css; charset=utf-8",
		"/assets/icon.svg": "image/svg+xml", "/openapi.json": "application/json"} {
		first := w.ask(http.MethodGet, target, "")
		if first.Code != http.StatusOK || first.Header().Get("Content-Type") != kind || first.Body.Len() == 0 {
			t.Errorf("%s: %d %s", target, first.Code, first.Header().Get("Content-Type"))
		}
		if again := w.ask(http.MethodGet, target, "",
			"If-None-Match: "+first.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s again: %d", target, again.Code)
		}
	}
}
