package middleware_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
	"github.com/hotparam/pipeline/internal/serving/proxy"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

const proofRules = `
rules:
  - {name: page, match: {path: "/page/{x}"}, params: [], hot: {rate: 1},
     limit: {rate: 1, burst: 12, priority: [staff, member, visitor]}}
  - {name: story, match: {path: /story}, params: [id], hot: {rate: 1}, cache: {ttl: 1h},
     limit: {rate: 1, burst: 12, priority: [staff, member, visitor]}}
  - {name: watched, match: {path: /watched}, params: [], hot: {rate: 1},
     limit: {rate: 1, burst: 12, priority: [visitor], mode: shadow}}
  - {name: free, match: {path: /free}, params: [], hot: {rate: 1},
     limit: {rate: 1, burst: 12, priority: [visitor]}}
classes:
  - {name: member, match: {header: X-User, pattern: "."}}
  - {name: staff, granted: true}
  - {name: visitor, pass_age: 10s}
overrides: [{key: free, action: exempt}]
ip: {trusted_proxies: [127.0.0.9]}
`

// site is a service by real rules behind a middleware or a proxy, over real connections.
type site struct {
	t       *testing.T
	passes  *visitorpass.Passes
	now     atomic.Int64 // unix seconds
	url     string
	client  *http.Client // with cookies
	handler atomic.Pointer[http.HandlerFunc]
	cookies atomic.Pointer[[]string] // of the last request that the handler saw
	class   atomic.Pointer[[]string] // its field for grants
	asked   atomic.Int64
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cookies, class := r.Header["Cookie"], r.Header[httplimit.FieldGrant]
	s.cookies.Store(&cookies)
	s.class.Store(&class)
	s.asked.Add(1)
	(*s.handler.Load())(w, r)
}

func (s *site) time() time.Time { return time.Unix(s.now.Load(), 0) }

// eachSite runs a case behind the middleware and the proxy, with HTTP/1.1, with TLS and with HTTP/2.
func eachSite(t *testing.T, run func(t *testing.T, s *site)) {
	t.Helper()
	for _, way := range []string{"middleware", "proxy"} {
		for _, protocol := range []string{"HTTP/1.1", "TLS", "HTTP/2"} {
			t.Run(way+", "+protocol, func(t *testing.T) {
				t.Parallel()
				run(t, openSite(t, way, protocol))
			})
		}
	}
}

func openSite(t *testing.T, way, protocol string) *site {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(proofRules))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, passes: visitorpass.New("test")}
	s.now.Store(1_700_000_000)
	s.passes.SetSecret(visitorpass.Day(s.time()), visitorpass.Secret{1})
	s.answer(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "whole") })
	replica := new(hotset.Replica)
	var hot []hottype.HotKey
	for _, key := range []hottype.Key{"page", "story?id=1", "watched", "free"} {
		hot = append(hot, hottype.HotKey{Key: key, Until: s.time().Add(time.Hour)})
	}
	replica.Replace("test", report.HotSet{At: s.time(), Version: 1, Keys: hot})
	g := gate.New(gate.Config{Rules: set, Hot: replica, Passes: s.passes})
	clients := httplimit.NewClients(set.IP.TrustedProxies, set.IP.Client)
	var h http.Handler
	if way == "middleware" {
		l := middleware.New(g, middleware.Options{Clients: clients, Now: s.time})
		h = l.Wrap(s)
		runCache(t, l.Cache())
	} else {
		upstream := httptest.NewServer(s)
		t.Cleanup(upstream.Close)
		u, _ := url.Parse(upstream.URL)
		p, err := proxy.New(g, proxy.Config{Upstreams: map[string]*url.URL{"": u}, Clients: clients, Now: s.time})
		if err != nil {
			t.Fatal(err)
		}
		h = p
		runCache(t, p.Cache())
	}
	server := httptest.NewUnstartedServer(h)
	if server.EnableHTTP2 = protocol == "HTTP/2"; protocol == "HTTP/1.1" {
		server.Start()
	} else {
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	s.url, s.client = server.URL, server.Client()
	if s.client.Jar, err = cookiejar.New(nil); err != nil {
		t.Fatal(err)
	}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s
}

func runCache(t *testing.T, c *respcache.Cache) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
}

func (s *site) answer(h http.HandlerFunc) { s.handler.Store(&h) }

// get sends a request with further fields, "NAME: VALUE", and returns the response after its body.
func (s *site) get(method, target string, fields ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+target, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(body)
}

// pass returns the cookie of a visitor pass that counts.
func (s *site) pass() string {
	return s.passes.Issue(s.time().Add(-time.Minute), hottype.ParseClient("127.0.0.1").Addr)
}
