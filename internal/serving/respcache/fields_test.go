package respcache_test

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// A refresh sends the handler the same request, whichever client caused it, so that the stored answer stays for all
// others.
func TestRefresh_IndependentOfClient(t *testing.T) {
	t.Parallel()
	for _, field := range []string{
		"Accept", "Accept-Language", "User-Agent", "Referer", "X-Lang", "Cache-Control", "Sec-Fetch-Mode",
		"Traceparent", "X-Big", "X-Forwarded-For", "X-Http-Host-Override", "Rsc", "X-Middleware-Prefetch",
		"X-Accel-Mapping",
	} {
		for _, status := range []int{400, 403, 431, 500, 200} {
			synctest.Test(t, func(t *testing.T) {
				b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get(field) == "bad, value" {
						w.Header().Set("Set-Cookie", "a=b")
						w.WriteHeader(status)
					}
					fmt.Fprint(w, "page")
				})
				b.get("/topic?id=1")
				for range 20 { // the client is the first each time that the answer is stale
					b.advance(1500 * time.Millisecond)
					b.get("/topic?id=1", field, "bad, value")
					synctest.Wait()
					w := b.get("/topic?id=1")
					if !strings.HasPrefix(w.Header().Get("Cache-Status"), "hotparam; hit; ttl=") ||
						w.Body.String() != "page" {
						t.Fatalf("%s, %d: %d %s %v", field, status, w.Code, w.Body, w.Header())
					}
				}
			})
		}
	}
}

// A refresh has the fields of the key in their normal form, the addresses, and nothing else of the
// client that caused it.
func TestRefresh_CarriesFieldsOfKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got http.Header
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			got = r.Header
			w.Header().Set("Vary", "Accept-Encoding")
		})
		b.serve.StripCookies = true
		fields := []string{"Accept-Encoding", "br,  gzip,br", "Accept", "text/html", "X-Lang", "de", "Cookie", "a=b",
			"User-Agent", "x", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https",
			"Sec-Fetch-Mode", "navigate"}
		b.get("/topic?id=1", fields...)
		b.advance(1500 * time.Millisecond)
		b.get("/topic?id=1", fields...)
		synctest.Wait()
		want := http.Header{"Accept-Encoding": {"gzip, br"}, "X-Forwarded-For": {"192.0.2.1"},
			"X-Forwarded-Proto": {"https"}, "User-Agent": {"Mozilla/5.0 (compatible; hotparam)"}}
		if b.asked.Load() != 2 || !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%v", got)
		}
	})
}

// One meaning has one variant.
func TestCache_SharesVariantBetweenSpellings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		spelling []string
		other    string
	}{
		{"Accept-Encoding", []string{"gzip, br", "br,GZIP;q=0.3", "gzip,br,br, *"}, "br, gzip;q=0"},
		{"Accept-Language", []string{"en-US, de;q=0.8", "EN-us,de; q=0.8", "de;q=0.8 , en-us"}, "de, en-US;q=0.8"},
		{"X-Lang", []string{"a, b", "a,b", " a ,b "}, `"a, b"`},
	} {
		b := build(t, respcache.Config{}, numbered("Vary", c.name))
		b.serve.Vary = []string{c.name}
		for _, v := range c.spelling {
			if w := b.get("/topic?id=1", c.name, v); w.Body.String() != "answer 1" {
				t.Errorf("%s: %q: %s", c.name, v, w.Body)
			}
		}
		if w := b.get("/topic?id=1", c.name, c.other); w.Body.String() != "answer 2" {
			t.Errorf("%s: %q: %s", c.name, c.other, w.Body)
		}
	}
}

// Where nothing is stored, a client whose fetches are not to be kept takes the cache from the others
// for two seconds, and not for ever.
func TestFirstFetch_FailuresBlockCacheTwoSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept") == "bad" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			w.Header().Set("Cache-Control", "max-age=1, must-revalidate")
			fmt.Fprint(w, "page")
		})
		for i := range 20 {
			b.advance(1500 * time.Millisecond)
			b.get("/topic?id=1", "Accept", "bad")
			synctest.Wait()
			w := b.get("/topic?id=1")
			if hit := strings.Contains(w.Header().Get("Cache-Status"), "hit"); hit != (i >= 2) || w.Code != 200 {
				t.Errorf("%d: %d %v", i, w.Code, w.Header())
			}
		}
	})
}

// An error that one client's fields caused, and that may be stored, reaches other clients once at most.
func TestCache_ConfirmsStoredErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			if r.Header.Get("Accept") == "bad" {
				w.WriteHeader(http.StatusForbidden)
			}
		})
		b.get("/topic?id=1", "Accept", "bad")
		b.get("/topic?id=1")
		synctest.Wait()
		for range 3 {
			if w := b.get("/topic?id=1"); w.Code != http.StatusOK || b.asked.Load() != 2 {
				t.Errorf("%d, asked %d times", w.Code, b.asked.Load())
			}
		}
	})
}

// An answer whose refreshes store nothing stays until its lifetime ends, whatever the response is, and the handler is
// asked once a second.
func TestRefresh_WithoutAnswerLeavesStoredOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		until  time.Duration
	}{{400, 11 * time.Second}, {403, 11 * time.Second}, {302, 11 * time.Second}, {500, 61 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			b := build(t, respcache.Config{}, numbered())
			b.get("/topic?id=1")
			b.upstream = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }
			b.asked.Store(0)
			for at := 1500 * time.Millisecond; at < c.until; at += 100 * time.Millisecond {
				b.now.Store(int64(at))
				if w := b.get("/topic?id=1"); w.Body.String() != "answer 1" {
					t.Fatalf("%d after %v: %d", c.status, at, w.Code)
				}
				synctest.Wait()
			}
			if n := b.asked.Load(); n > int64(c.until/time.Second) {
				t.Errorf("%d: asked %d times in %v", c.status, n, c.until)
			}
			b.now.Store(int64(c.until))
			if w := b.get("/topic?id=1"); w.Code != c.status {
				t.Errorf("%d after %v: %d", c.status, c.until, w.Code)
			}
		})
	}
}

// While the handler fails slowly, requests are answered at once and it is asked once a second; only
// the first ones wait, and not for long.
func TestStaleIfError_AnswersAtOnce(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, 200 * time.Millisecond, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			b := build(t, respcache.Config{}, numbered())
			b.serve.Stale, b.serve.Wait = 0, 500*time.Millisecond
			b.get("/topic?id=1")
			b.upstream = func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(delay)
				w.WriteHeader(http.StatusBadGateway)
			}
			b.asked.Store(0)
			time.Sleep(2 * time.Second)
			for range 300 {
				b.now.Store(int64(time.Since(began)))
				done := make(chan time.Duration, 1)
				go func() {
					from := time.Now()
					if w := b.get("/topic?id=1"); w.Body.String() != "answer 1" {
						t.Errorf("%v: %d", delay, w.Code)
					}
					done <- time.Since(from)
				}()
				time.Sleep(20 * time.Millisecond)
				if late := time.Since(began) > 3*time.Second; late {
					select {
					case <-done:
					default:
						t.Errorf("%v: a request waits", delay)
					}
				}
			}
			if n := b.asked.Load(); n > 8 {
				t.Errorf("%v: asked %d times in 6 s", delay, n)
			}
			time.Sleep(time.Minute)
		})
	}
}

// Two requests have different keys if the handler can distinguish them by the fields of the key.
func TestAppendTarget_SeparatesParts(t *testing.T) {
	t.Parallel()
	part := rapid.StringMatching(`[asx:,/\n]{0,4}`)
	type seen struct {
		host, target, proto, lang string
		https                     bool
	}
	draw := func(rt *rapid.T) seen {
		return seen{part.Draw(rt, "host"), "/" + part.Draw(rt, "target"), part.Draw(rt, "proto"), part.Draw(rt, "lang"),
			rapid.Bool().Draw(rt, "https")}
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Vary", "X-Lang")
			fmt.Fprintf(w, "%q %q %q %v", r.Host, r.RequestURI, r.Header["X-Forwarded-Proto"], r.TLS != nil)
		})
		do := func(s seen) string {
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.Host, r.RequestURI = s.host, s.target
			r.Header["X-Forwarded-Proto"] = strings.Split(s.proto, ",")
			r.Header["X-Lang"] = []string{s.lang}
			if s.https {
				r.TLS = &tls.ConnectionState{}
			}
			w := httptest.NewRecorder()
			b.ServeHTTP(w, r)
			return w.Body.String()
		}
		one, other := draw(rt), draw(rt)
		if rapid.Bool().Draw(rt, "moved") { // the end of one part becomes the beginning of the next
			one = seen{"s" + "x", "/t", "a", "", false}
			other = seen{"x", "/t", "a", "", true}
		}
		do(one)
		if got, want := do(other), fmt.Sprintf("%q %q %q %v", other.host, other.target, strings.Split(other.proto, ","),
			other.https); got != want {
			rt.Errorf("%+v got %s after %+v", other, got, one)
		}
	})
}

// Informational answers reach the client of the fetch; the answer is stored without them.
func TestCache_PassesInformationalResponses(t *testing.T) {
	t.Parallel()
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		w.answer(func(res http.ResponseWriter, _ *http.Request) {
			res.Header().Set("Link", "</a.css>; rel=preload")
			res.WriteHeader(http.StatusEarlyHints)
			res.Header().Del("Link")
			fmt.Fprint(res, "body")
		})
		for i, want := range []int{1, 0} {
			hints := 0
			got := w.askTraced(t, topic, func() { hints++ })
			if hints != want || got.body != "body" || got.header.Get("Link") != "" {
				t.Errorf("%d: %d hints, %+v", i, hints, got)
			}
		}
	})
}

// CDN-Cache-Control is for caches like this one, and takes precedence over Cache-Control.
func TestTargetedCacheControl_TakesPrecedence(t *testing.T) {
	t.Parallel()
	past := start().Add(-time.Hour).Format(http.TimeFormat)
	for _, c := range []struct {
		targeted string
		fields   []string
		fresh    time.Duration // 0: not kept
	}{
		{"max-age=60", []string{"Cache-Control", "max-age=1"}, time.Minute},
		{"max-age=60", []string{"Cache-Control", "no-store, private", "Expires", past}, time.Minute},
		{"max-age=2", []string{"Cache-Control", "s-maxage=60"}, 2 * time.Second},
		{"no-store", []string{"Cache-Control", "max-age=60"}, 0},
		{"private", []string{"Cache-Control", "max-age=60"}, 0},
		{"max-age=0", []string{"Cache-Control", "max-age=60"}, 0},
		{`max-age="60"`, nil, 0},
		{"no-store=?0, max-age=9", []string{"Cache-Control", "no-store"}, 9 * time.Second},
		{"max-age=60, &", []string{"Cache-Control", "max-age=3"}, 3 * time.Second}, // no dictionary
		{"", []string{"Cache-Control", "max-age=3"}, 3 * time.Second},
		{"Max-Age=60", []string{"Cache-Control", "max-age=3"}, 3 * time.Second},
	} {
		b := build(t, respcache.Config{}, numbered(append(c.fields, "Cdn-Cache-Control", c.targeted)...))
		b.serve.Stale = 0
		b.get("/topic?id=1")
		b.advance(c.fresh - time.Millisecond)
		if kept := b.get("/topic?id=1").Body.String() == "answer 1"; c.fresh > 0 && !kept {
			t.Errorf("%q, %q: not kept", c.targeted, c.fields)
		}
		b.advance(2 * time.Millisecond)
		if kept := b.get("/topic?id=1").Body.String() == "answer 1"; kept {
			t.Errorf("%q, %q: kept for too long", c.targeted, c.fields)
		}
	}
}
