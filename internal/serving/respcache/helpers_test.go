package respcache_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// gate lets as many requests go on as it has tokens, or all of them when they are negative.
type gate struct {
	tokens          atomic.Int64
	charged, denied atomic.Int64
	mu              sync.Mutex
	counted         []verdict.Verdict
}

func (g *gate) ChargeKeys(*http.Request, []string) verdict.Verdict {
	g.charged.Add(1)
	if n := g.tokens.Load(); n == 0 {
		g.denied.Add(1)
		return verdict.Verdict{Verdict: hottype.Verdict{
			Reason: hottype.ReasonHot, Rule: "topic", Limit: 1, Window: time.Second, RetryAfter: time.Second,
		}}
	} else if n > 0 {
		g.tokens.Add(-1)
	}
	return verdict.Verdict{Verdict: hottype.Verdict{Allowed: true, Reason: hottype.ReasonHot, Rule: "topic"}}
}

func (g *gate) KeepLease(*verdict.Lease) (release func()) { return func() {} }

func (g *gate) ServeAllowed(w http.ResponseWriter, r *http.Request, _ *verdict.Verdict, next http.Handler,
	_ func(status int)) {
	next.ServeHTTP(w, r)
}

func (g *gate) count(v *verdict.Verdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counted = append(g.counted, *v)
}

// bundle is a cache before a handler, with a clock.
type bundle struct {
	*respcache.Cache
	gate     *gate
	serve    hottype.CachePolicy
	now      atomic.Int64 // since start
	upstream http.HandlerFunc
	asked    atomic.Int64
}

func start() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func build(t *testing.T, cfg respcache.Config, upstream http.HandlerFunc) *bundle {
	t.Helper()
	b := &bundle{gate: &gate{}, upstream: upstream, serve: hottype.CachePolicy{
		TTL: time.Second, Stale: 10 * time.Second, StaleIfError: time.Minute,
		Vary: []string{"Accept-Encoding", "X-Lang"}, MaxBody: 1 << 16, Wait: 5 * time.Second,
	}}
	b.gate.tokens.Store(-1)
	cfg.Gate = b.gate
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return start().Add(time.Duration(b.now.Load())) }
	}
	b.Cache = respcache.New(cfg)
	return b
}

func (b *bundle) advance(d time.Duration) { b.now.Add(int64(d)) }

// ServeHTTP is the cache as a server would have it.
func (b *bundle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := verdict.Verdict{Verdict: hottype.Verdict{
		Allowed: true, Reason: hottype.ReasonCached, Hot: true, Key: "topic?id=1",
	}, Cache: &b.serve}
	left := &respcache.PendingRequest{Verdict: v, Count: b.gate.count}
	b.Serve(w, r, left, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		b.upstream(w, r)
	}), "")
}

// open sends a request in the background, and returns its response, which is complete when over is closed. leave ends
// the client.
func (b *bundle) open(t *testing.T, target string) (w *httptest.ResponseRecorder, over <-chan struct{}, leave func()) {
	ctx, leave := context.WithCancel(t.Context())
	w, ended := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }() // as a server does, which breaks the connection off
		b.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody))
	}()
	return w, ended, leave
}

// get asks with fields "Name", "value", ….
func (b *bundle) get(target string, fields ...string) *httptest.ResponseRecorder {
	return b.ask(http.MethodGet, target, fields...)
}

func (b *bundle) ask(method, target string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

// numbered answers with how often it was asked.
func numbered(fields ...string) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		fmt.Fprintf(w, "answer %d", n.Add(1))
	}
}

// post changes a target. The handler responds with status, or writes nothing if it is 0.
func (b *bundle) post(target string, status int) {
	r := httptest.NewRequest(http.MethodPost, target, http.NoBody)
	if invalidate := b.Invalidation(httptest.NewRecorder(), r, &verdict.Verdict{Verdict: hottype.Verdict{
		Allowed: true,
	}}, ""); invalidate != nil {
		invalidate(cmp.Or(status, http.StatusOK))
	}
}
