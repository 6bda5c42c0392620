package httplimit_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// A response has the cookie of a pass exactly if it is a denial with a pass. It keeps other cookies, and shared
// caches must not store it, also if the service writes the body.
func TestResponder_SetsPassOnDenialsAlone(t *testing.T) {
	t.Parallel()
	clients := httplimit.NewClients(prefixes("10.0.0.0/8"), "")
	rapid.Check(t, func(t *rapid.T) {
		v := hottype.Verdict{
			Allowed: rapid.Bool().Draw(t, "allowed"), WouldDeny: rapid.Bool().Draw(t, "would deny"),
			Pass:   rapid.SampledFrom([]*hottype.Pass{nil, {Name: "hotparam_0a1b", Value: "AAAA-_"}}).Draw(t, "pass"),
			Reason: hottype.ReasonHot, Window: time.Second, RetryAfter: 11 * time.Second,
		}
		a := httplimit.Responder{Clients: clients, DenyHeaders: map[string]string{"CDN-Cache-Control": "max-age=60"}}
		if rapid.Bool().Draw(t, "own body") {
			a.Deny = func(w http.ResponseWriter, _ *http.Request, _ *hottype.Verdict) { w.WriteHeader(429) }
		}
		r := request(rapid.SampledFrom([]string{"10.1.1.1:1", "203.0.113.9:1"}).Draw(t, "peer"), http.Header{})
		if rapid.Bool().Draw(t, "TLS") {
			r.TLS = new(tls.ConnectionState)
		}
		secure, proto := r.TLS != nil, rapid.SampledFrom([]string{"", "http", "https", "HTTPS", "https,http"})
		if p := proto.Draw(t, "proto"); p != "" {
			r.Header["X-Forwarded-Proto"] = []string{p}
			if strings.HasPrefix(r.RemoteAddr, "10.") {
				secure = strings.EqualFold(p, "https")
			}
		}
		r.Header.Set("Accept", rapid.SampledFrom([]string{"text/html", "*/*", "text/plain"}).Draw(t, "accept"))
		w := httptest.NewRecorder()
		w.Header()["Set-Cookie"] = []string{"theme=dark"}
		w.Header()["Surrogate-Control"] = []string{"max-age=60"}
		a.Enforce(w, r, &v)
		cookies := w.Result().Cookies()
		if cookies[0].Name != "theme" {
			t.Fatalf("other cookies are lost: %v", w.Header())
		}
		if want := v.Pass != nil && !v.Allowed; len(cookies) != map[bool]int{true: 2, false: 1}[want] {
			t.Fatalf("%+v: %v", v, w.Header())
		} else if want {
			checkPass(t, w.Header(), cookies[1], secure)
		}
	})
}

// checkPass checks the cookie of a pass and that its response is stored nowhere.
func checkPass(t *rapid.T, h http.Header, c *http.Cookie, secure bool) {
	name, bare := strings.CutPrefix(c.Name, "__Host-")
	if name != "hotparam_0a1b" || c.Value != "AAAA-_" || bare != secure || c.Secure != secure || c.Path != "/" ||
		!c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 24*60*60 || c.Domain != "" {
		t.Fatalf("secure %v: %s", secure, c.Raw)
	}
	for _, name := range []string{"Cdn-Cache-Control", "Surrogate-Control"} {
		if h[name] != nil {
			t.Fatalf("a cache may obey %s: %v", name, h)
		}
	}
	if !slices.ContainsFunc(h["Cache-Control"], func(s string) bool { return strings.Contains(s, "no-store") }) {
		t.Fatalf("a cache may store %v", h)
	}
}
