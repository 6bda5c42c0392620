package respcache_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// A user whom the handler knows gets an answer of their own, and no other client gets it later.
func TestCache_IsBypassedByIdentifiedUsers(t *testing.T) {
	t.Parallel()
	for _, fields := range [][]string{
		{"Authorization", "Bearer anna"}, {"Proxy-Authorization", "Basic x"}, {"Cookie", "session=anna"},
		{"X-Original-Url", "/admin"}, {"X-Http-Method-Override", "DELETE"}, {"X-Api-Key", "1"},
		{"Upgrade", "websocket"}, {"If-Match", `"1"`}, {"Range", "bytes=0-1"},
	} {
		b := build(t, respcache.Config{}, numbered())
		first := b.get("/topic?id=1", fields...)
		second := b.get("/topic?id=1")
		third := b.get("/topic?id=1", fields...)
		if first.Body.String() != "answer 1" || second.Body.String() != "answer 2" {
			t.Errorf("%v: %s, then %s", fields, first.Body, second.Body)
		}
		if stored := third.Header().Get("Cache-Status"); fields[0] != "Range" &&
			!strings.Contains(stored, "fwd=bypass") {
			t.Errorf("%v: %s", fields, stored)
		}
	}
}

func TestCache_IsBypassedByClientCertificate(t *testing.T) {
	t.Parallel()
	b := build(t, respcache.Config{}, numbered())
	for i := range 2 {
		r := httptest.NewRequest(http.MethodGet, "/topic?id=1", http.NoBody)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
		w := httptest.NewRecorder()
		b.ServeHTTP(w, r)
		if w.Body.String() != fmt.Sprint("answer ", i+1) {
			t.Errorf("%s", w.Body)
		}
	}
}

// Stripped cookies never reach the handler, so that its answer is for all.
func TestCache_StripsCookies(t *testing.T) {
	t.Parallel()
	b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello ", r.Header.Get("Cookie"))
	})
	b.serve.StripCookies = true
	for range 2 {
		if w := b.get("/topic?id=1", "Cookie", "session=anna"); w.Body.String() != "hello " {
			t.Errorf("%s", w.Body)
		}
	}
	if b.asked.Load() != 1 {
		t.Error("not kept")
	}
}

func TestCache_StoresNothingForbidden(t *testing.T) {
	t.Parallel()
	for _, fields := range [][]string{
		{"Cache-Control", "private"}, {"Cache-Control", "no-store"}, {"Cache-Control", `max-age=60, PRIVATE="x, y"`},
		{"Cache-Control", "no-cache"}, {"Cache-Control", "max-age=0"}, {"Cache-Control", "max-age=x"},
		{"Cache-Control", "max-age="},
		{"Cache-Control", "max-age=60, max-age=0"}, {"Cache-Control", "s-maxage=0, max-age=60"},
		{"Cache-Control", `foo="no, max-age=60, no-store`, "Cache-Control", "no-store"},
		{"Expires", "0"}, {"Expires", "Thu, 01 Jan 1970 00:00:00 GMT"},
		{"Set-Cookie", "session=anna"}, {"Vary", "*"}, {"Vary", "Cookie"}, {"Vary", "X-Lang, User-Agent"},
		{"Age", "99", "Cache-Control", "max-age=60"},
		{"Trailer", "X-Sum"}, {"Content-Type", "text/event-stream"},
	} {
		b := build(t, respcache.Config{}, numbered(fields...))
		for i := range 3 {
			if w := b.get("/topic?id=1"); w.Body.String() != fmt.Sprint("answer ", i+1) ||
				strings.Contains(w.Header().Get("Cache-Status"), "stored") {
				t.Errorf("%v: %s %v", fields, w.Body, w.Header())
			}
		}
	}
}

func TestCache_StoresForStatedLifetime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fields []string
		fresh  time.Duration
	}{
		{nil, time.Second},
		{[]string{"Cache-Control", "max-age=60"}, time.Minute},
		{[]string{"Cache-Control", `Max-Age="60"`}, time.Minute},
		{[]string{"Cache-Control", "max-age=5, s-maxage=60, public"}, time.Minute},
		{[]string{"Cache-Control", "max-age=99999999999999999999"}, 20 * time.Hour},
		{[]string{"Cache-Control", "max-age=60", "Age", "20"}, 40 * time.Second},
		{[]string{"Expires", start().Add(time.Minute).Format(http.TimeFormat), "Date", start().Format(http.TimeFormat)},
			time.Minute},
		// an old answer is kept for ttl too
		{[]string{"Date", start().Add(-time.Hour).Format(http.TimeFormat)}, time.Second},
	} {
		b := build(t, respcache.Config{}, numbered(c.fields...))
		b.serve.Stale = 0
		b.get("/topic?id=1")
		b.advance(c.fresh - time.Millisecond)
		if w := b.get("/topic?id=1"); w.Body.String() != "answer 1" {
			t.Errorf("%v: not kept", c.fields)
		}
		if c.fresh > time.Hour {
			continue
		}
		b.advance(2 * time.Millisecond)
		if w := b.get("/topic?id=1"); w.Body.String() != "answer 2" {
			t.Errorf("%v: kept for too long", c.fields)
		}
	}
}

// must-revalidate and its equivalents prevent stale responses, whatever the rule allows.
func TestCache_ServesNoStaleIfForbidden(t *testing.T) {
	t.Parallel()
	for _, directive := range []string{"must-revalidate", "proxy-revalidate", "s-maxage=1",
		"stale-while-revalidate=0, stale-if-error=0"} {
		b := build(t, respcache.Config{}, numbered("Cache-Control", "max-age=1, "+directive))
		b.get("/topic?id=1")
		b.upstream = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
		b.advance(2 * time.Second)
		if w := b.get("/topic?id=1"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", directive, w.Code, w.Body)
		}
	}
}

// Requests that differ only by a field that the upstream does not name share one response, as do lists of codings in
// another order.
func TestCache_SharesVariantBetweenClients(t *testing.T) {
	t.Parallel()
	b := build(t, respcache.Config{}, numbered("Vary", "Accept-Encoding"))
	for _, fields := range [][]string{
		{"Accept-Encoding", "gzip, br"}, {"Accept-Encoding", "br,gzip", "X-Lang", "de"},
		{"Accept-Encoding", "br, gzip", "User-Agent", "x"},
	} {
		if w := b.get("/topic?id=1", fields...); w.Body.String() != "answer 1" {
			t.Errorf("%v: %s", fields, w.Body)
		}
	}
	if w := b.get("/topic?id=1", "Accept-Encoding", "gzip"); w.Body.String() != "answer 2" {
		t.Errorf("%s", w.Body)
	}
	if w := b.get("/topic?id=1"); w.Body.String() != "answer 3" {
		t.Errorf("%s", w.Body)
	}
}

// Hosts, targets and origins are parts of the key.
func TestCache_NeverMixesTargets(t *testing.T) {
	t.Parallel()
	b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, r.RequestURI, r.Header.Get("X-Forwarded-Proto"), r.TLS != nil)
	})
	seen := map[string]bool{}
	for _, c := range [][2]string{
		{"http://a/topic?id=1", ""}, {"http://b/topic?id=1", ""}, {"https://a/topic?id=1", ""},
		{"http://a/topic?id=1", "https"},
		{"http://a/topic?id=1&x=1", ""}, {"http://a/topic?id=1&", ""}, {"http://a/topic/?id=1", ""},
	} {
		w := b.get(c[0], "X-Forwarded-Proto", c[1])
		if seen[w.Body.String()] {
			t.Errorf("%v: %s", c, w.Body)
		}
		seen[w.Body.String()] = true
	}
	if b.asked.Load() != int64(len(seen)) {
		t.Errorf("asked %d times", b.asked.Load())
	}
}

// Each part of a target alone distinguishes it from others.
func TestCache_DistinguishesEachPartOfTarget(t *testing.T) {
	t.Parallel()
	base := func() *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/topic?id=1", http.NoBody)
		r.Host = "a"
		return r
	}
	changes := map[string]func(r *http.Request, scope, class *string){
		"host":   func(r *http.Request, _, _ *string) { r.Host = "b" },
		"target": func(r *http.Request, _, _ *string) { r.RequestURI = "/topic?id=1&" },
		"scheme": func(r *http.Request, _, _ *string) { r.TLS = &tls.ConnectionState{} },
		"scope":  func(_ *http.Request, scope, _ *string) { *scope = "1" },
		"class":  func(_ *http.Request, _, class *string) { *class = "bots" },
	}
	for _, name := range []string{
		"Cf-Ipcountry", "Cf-Visitor", "Cloudfront-Forwarded-Proto", "Forwarded", "Front-End-Https", "X-Forwarded-Host",
		"X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Proto", "X-Forwarded-Scheme", "X-Forwarded-Server",
		"X-Forwarded-Ssl", "X-Scheme",
	} {
		changes[name] = func(r *http.Request, _, _ *string) { r.Header.Set(name, "x") }
	}
	for part, change := range changes {
		b := build(t, respcache.Config{}, numbered())
		ask := func(r *http.Request, scope, class string) string {
			v := verdict.Verdict{Verdict: hottype.Verdict{
				Allowed: true, Hot: true, Key: "topic?id=1", Class: class,
			}, Cache: &b.serve}
			w := httptest.NewRecorder()
			b.Serve(w, r, &respcache.PendingRequest{Verdict: v, Count: b.gate.count}, b.upstream, scope)
			return w.Body.String()
		}
		ask(base(), "", "")
		r, scope, class := base(), "", ""
		change(r, &scope, &class)
		if got := ask(r, scope, class); got != "answer 2" {
			t.Errorf("%s: %s", part, got)
		}
		if got := ask(base(), "", ""); got != "answer 1" {
			t.Errorf("%s: %s for the first one", part, got)
		}
	}
}
