package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// servingGate leaves everything to the cache.
type servingGate struct{ gate }

func (servingGate) DecideServed(context.Context, time.Time, *hottype.Request) hottype.Verdict {
	return hottype.Verdict{Allowed: true, Hot: true, Reason: hottype.ReasonCached, Key: "topic?id=1",
		Serve: &hottype.Serve{
			TTL: time.Minute, Vary: []string{"Accept-Encoding"}, MaxBody: 1 << 16, Wait: 5 * time.Second,
		}}
}

func (servingGate) ChargeKeys(context.Context, time.Time, *hottype.Request) hottype.Verdict {
	return hottype.Verdict{Allowed: true, Reason: hottype.ReasonHot, Rule: "topic"}
}

func (servingGate) CountServed(time.Time, *hottype.Request, *hottype.Verdict) {}

func serveCached(t *testing.T, up *url.URL) (*proxy.Proxy, string) {
	t.Helper()
	p, err := proxy.New(servingGate{}, proxy.Config{Upstreams: map[string]*url.URL{"": up}, PreserveHost: true})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	return p, srv.URL
}

// The whole way, with upstreams of each kind: what two clients get is the same and whole,
// and the upstream is asked once.
func TestCachedAnswersAreWhole(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("line\n", 2000)
	for name, answer := range map[string]http.HandlerFunc{
		"length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = io.WriteString(w, body)
		},
		"chunked": func(w http.ResponseWriter, _ *http.Request) {
			for line := range strings.Lines(body) {
				_, _ = io.WriteString(w, line)
			}
			_ = http.NewResponseController(w).Flush()
		},
		"early hints": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, body)
		},
	} {
		for _, h2 := range []bool{false, true} {
			var asked atomic.Int64
			up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				answer(w, r)
			}))
			scheme := "http:"
			if h2 {
				up.Config.Protocols, scheme = h2c(), "h2c:"
			}
			up.Start()
			to, err := url.Parse(strings.Replace(up.URL, "http:", scheme, 1))
			if err != nil {
				t.Fatal(err)
			}
			_, at := serveCached(t, to)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if code, got := get(t, at+"/topic?id=1", nil); code != 200 || got != body {
						t.Errorf("%s, HTTP/2 %v: %d, %d bytes", name, h2, code, len(got))
					}
				})
			}
			all.Wait()
			if n := asked.Load(); n != 1 {
				t.Errorf("%s, HTTP/2 %v: asked %d times", name, h2, n)
			}
			up.Close()
		}
	}
}

// An upstream that dies in the middle of a body leaves nobody with a short answer that looks
// whole, neither the client that it streamed to nor those who waited.
func TestUpstreamDiesInACachedBody(t *testing.T) {
	t.Parallel()
	for _, length := range []string{"", "9999"} {
		up := upstream(t, "", func(w http.ResponseWriter, _ *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			_, _ = io.WriteString(w, strings.Repeat("x", 5000))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		p, at := serveCached(t, up)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				res, err := http.Get(at + "/topic?id=1")
				if err != nil {
					return // broken off before the header: fine
				}
				defer res.Body.Close()
				if _, err := io.ReadAll(res.Body); err == nil && res.StatusCode == 200 {
					t.Error("a short answer passed for a whole one")
				}
			})
		}
		all.Wait()
		if s := p.Cache().Stats(); s.Hits != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// Trailers reach the client; an answer that announces them is kept for nobody.
func TestTrailersPassTheCache(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	up := upstream(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, n.Add(1))
		w.Header().Set("X-Sum", "sum")
	})
	_, at := serveCached(t, up)
	for i := range 2 {
		res, err := http.Get(at + "/topic?id=1")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(body) != fmt.Sprint(i+1) || res.Trailer.Get("X-Sum") != "sum" {
			t.Errorf("%s %v %v", body, res.Trailer, err)
		}
	}
}
