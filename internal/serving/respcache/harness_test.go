package respcache_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/middleware"
	"github.com/hotparam/pipeline/internal/serving/proxy"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// way is one way into a cache over real connections: a client, a server with the cache, and the
// site behind it, which is an upstream of the proxy or the handler of the middleware.
type way struct {
	origin
	url     string
	via     http.RoundTripper
	cache   *respcache.Cache
	serve   *hottype.CachePolicy // of all requests; to be changed before the first
	stepped atomic.Int64         // by which the cache's clock is off
	proxied bool
}

// origin answers as it was told, and counts.
type origin struct {
	asked, returned atomic.Int64
	how             atomic.Pointer[http.HandlerFunc]
}

func (o *origin) answer(how http.HandlerFunc) { o.how.Store(&how) }

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.asked.Add(1)
	defer o.returned.Add(1)
	(*o.how.Load())(w, r)
}

// servingGate leaves what may be served to the cache, and lets everything pass.
type servingGate struct {
	httplimit.Gate
	serve hottype.CachePolicy
}

func (*servingGate) UsesProofs() (cookies, grants bool) { return false, false }

func (*servingGate) NeedsSlot(time.Time, *hottype.Request) bool { return false }

func (g *servingGate) DecideForCache(
	_ context.Context, _ time.Time, r *hottype.Request,
) (v verdict.Verdict, count func(*verdict.Verdict)) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return verdict.Verdict{Verdict: hottype.Verdict{Allowed: true}}, nil
	}
	return verdict.Verdict{Verdict: hottype.Verdict{
			Allowed: true, Hot: true, Reason: hottype.ReasonCached, Key: "topic?id=1",
		}, Cache: &g.serve},
		func(*verdict.Verdict) {}
}

func (*servingGate) ChargeKeys(context.Context, time.Time, *hottype.Request) verdict.Verdict {
	return verdict.Verdict{Verdict: hottype.Verdict{Allowed: true, Reason: hottype.ReasonHot, Rule: "topic"}}
}

// eachWay runs a case through the proxy and the middleware, each with HTTP/1.1 and HTTP/2.
func eachWay(t *testing.T, cfg respcache.Config, run func(t *testing.T, w *way)) {
	t.Helper()
	for _, name := range []string{"proxy", "middleware", "proxy, HTTP/2", "middleware, HTTP/2"} {
		t.Run(name, func(t *testing.T) {
			kind, _, h2 := strings.Cut(name, ",")
			run(t, open(t, cfg, kind == "proxy", h2))
		})
	}
}

// open returns a way, which ends with the test.
func open(t *testing.T, cfg respcache.Config, proxied, h2 bool) *way {
	t.Helper()
	w := &way{proxied: proxied}
	gate := &servingGate{serve: hottype.CachePolicy{
		TTL: time.Minute, Stale: time.Minute, StaleIfError: time.Hour,
		Vary: []string{"Accept-Encoding", "X-Lang"}, MaxBody: 1 << 16, Wait: 20 * time.Second,
	}}
	w.serve = &gate.serve
	now := func() time.Time { return time.Now().Add(time.Duration(w.stepped.Load())) }
	var front http.Handler
	if proxied {
		up, err := url.Parse(listen(t, &w.origin, h2))
		if err != nil {
			t.Fatal(err)
		}
		if h2 {
			up.Scheme = "h2c"
		}
		p, err := proxy.New(gate, proxy.Config{Upstreams: map[string]*url.URL{"": up}, Cache: cfg, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		front, w.cache = p, p.Cache()
	} else {
		l := middleware.New(gate, middleware.Options{Cache: cfg, Now: now})
		front, w.cache = l.Wrap(&w.origin), l.Cache()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.cache.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	w.url = listen(t, front, h2)
	via := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, Protocols: protocols(h2)}
	t.Cleanup(via.CloseIdleConnections)
	w.via = via
	return w
}

func protocols(h2 bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(!h2)
	p.SetUnencryptedHTTP2(h2)
	return p
}

// listen starts a server and returns its URL.
func listen(t *testing.T, h http.Handler, h2 bool) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.Protocols = protocols(h2)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// reply is the response that a client got.
type reply struct {
	status          int
	header, trailer http.Header
	body            string
	err             error // of a connection that was broken off
}

// begin sends a request with fields "Name", "value", … and returns the response as soon as it begins.
func (w *way) begin(ctx context.Context, method, target string, fields ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.url+target, http.NoBody)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return w.via.RoundTrip(r)
}

func (w *way) ask(ctx context.Context, method, target string, fields ...string) (got reply) {
	res, err := w.begin(ctx, method, target, fields...)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, res.Trailer, string(body), err}
}

func (w *way) get(t *testing.T, target string, fields ...string) reply {
	t.Helper()
	return w.ask(t.Context(), http.MethodGet, target, fields...)
}

// askTraced asks, and calls hint for each informational answer.
func (w *way) askTraced(t *testing.T, target string, hint func()) reply {
	t.Helper()
	trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { hint(); return nil }}
	return w.ask(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, target)
}

// want asks and compares status and body.
func (w *way) want(t *testing.T, status int, body, target string, fields ...string) reply {
	t.Helper()
	got := w.get(t, target, fields...)
	if got.err != nil || got.status != status || got.body != body {
		t.Errorf("%s %v: %d %.200q, %v; want %d %.200q", target, fields, got.status, got.body, got.err, status, body)
	}
	return got
}

// hit reports whether an answer came from the cache.
func (r *reply) hit() bool { return strings.HasPrefix(r.header.Get("Cache-Status"), "hotparam; hit") }

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}
