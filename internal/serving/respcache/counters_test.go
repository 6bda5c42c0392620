package respcache_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// nonZeroCounts are the counters that are not 0.
func nonZeroCounts(all map[string]uint64) map[string]uint64 {
	some := maps.Clone(all)
	maps.DeleteFunc(some, func(_ string, n uint64) bool { return n == 0 })
	return some
}

// A request that passes by, and an answer that is not kept, counts once and for one reason.
func TestStats_CountEachReasonOnce(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(*http.Request){
		"authorization": func(r *http.Request) { r.Header.Set("Proxy-Authorization", "x") },
		"cookie":        func(r *http.Request) { r.Header.Set("Cookie", "a=b") },
		"certificate": func(r *http.Request) {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
		},
		"body":         func(r *http.Request) { r.ContentLength = -1 },
		"upgrade":      func(r *http.Request) { r.Header.Set("Upgrade", "x") },
		"precondition": func(r *http.Request) { r.Header.Set("If-Unmodified-Since", "x") },
		"field":        func(r *http.Request) { r.Header.Set("X-Forwarded-For", "unknown") },
		"range":        func(r *http.Request) { r.Header["Range"] = []string{"bytes=0-1", "bytes=3-4"} },
	} {
		b := build(t, respcache.Config{}, numbered())
		r := httptest.NewRequest(http.MethodGet, "/topic?id=1", http.NoBody)
		change(r)
		w := httptest.NewRecorder()
		b.ServeHTTP(w, r)
		s := b.Stats()
		if !maps.Equal(nonZeroCounts(s.Bypassed), map[string]uint64{reason: 1}) ||
			len(nonZeroCounts(s.NotStored)) > 0 || s.Fetched != 0 ||
			b.gate.charged.Load() != 1 || len(b.gate.counted) != 1 ||
			w.Header().Get("Cache-Status") != "hotparam; fwd=bypass; detail="+reason {
			t.Errorf("%s: %+v %v", reason, s, w.Header())
		}
	}
	for reason, fields := range map[string][]string{
		"cache-control": {"Cache-Control", "private"}, "set-cookie": {"Set-Cookie", "a=b"}, "vary": {"Vary", "X"},
		"stream": {"Content-Type", "text/event-stream; x"}, "expired": {"Expires", "0"}, "max_body": {"X-Long", ""},
		"memory": {"X-Memory", ""}, "status": {"X-Status", ""},
	} {
		b := build(t, respcache.Config{Memory: 4096}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(fields[0], fields[1])
			switch reason {
			case "max_body":
				fmt.Fprint(w, strings.Repeat("x", 1001))
			case "memory":
				fmt.Fprint(w, strings.Repeat("x", 1000), strings.Repeat("x", 3097))
			case "status":
				w.WriteHeader(http.StatusFound)
			}
		})
		if b.serve.MaxBody = 1000; reason == "memory" {
			b.serve.MaxBody = 1 << 20
		}
		b.get("/topic?id=1")
		b.get("/topic?id=1")
		if err := b.waitForFetches(t); err != nil {
			t.Error(err)
		}
		s := b.Stats()
		if !maps.Equal(nonZeroCounts(s.NotStored), map[string]uint64{reason: 1}) || s.Fetched != 1 || s.Failed != 0 ||
			!maps.Equal(nonZeroCounts(s.Bypassed), map[string]uint64{"uncacheable": 1}) {
			t.Errorf("%s: %+v", reason, s)
		}
	}
}

// waitForFetches waits for the fetches of a cache.
func (b *bundle) waitForFetches(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return b.Run(ctx)
}

// A purge removes and counts all variants of a key, and leaves other keys alone.
func TestPurge_RemovesAllVariants(t *testing.T) {
	t.Parallel()
	b := build(t, respcache.Config{}, numbered("Vary", "X-Lang"))
	for _, lang := range []string{"de", "en", "fr"} {
		b.get("/topic?id=1", "X-Lang", lang)
	}
	b.fetch("topic?id=2", "/topic?id=2", "")
	if s := b.Stats(); s.Entries != 4 {
		t.Errorf("%+v", s)
	}
	if n := b.Purge("topic?id=1"); n != 3 {
		t.Errorf("%d purged", n)
	}
	before := b.Stats()
	if before.Entries != 1 || before.Purged != 3 || before.Evicted != 0 || before.Bytes <= 0 {
		t.Errorf("%+v", before)
	}
	if n := b.Purge("topic?id=2"); n != 1 || b.Stats().Bytes != 0 || b.Stats().Purged != 4 || b.Stats().Entries != 0 {
		t.Errorf("%d purged, %+v", n, b.Stats())
	}
}

// A change takes out its target and what Location and Content-Location name of the same host, if the
// handler answers it without an error.
func TestInvalidation_RemovesNamedLocations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, name, value string
		status              int
		want                string // the removed ones of the ids 1, 2, 3
	}{
		{"POST", "", "", 200, "1"}, {"PUT", "", "", 399, "1"}, {"DELETE", "", "", 400, ""},
		{"GET", "", "", 200, ""}, {"HEAD", "", "", 200, ""}, {"OPTIONS", "", "", 200, ""}, {"TRACE", "", "", 200, ""},
		{"POST", "Location", "/topic?id=2", 201, "12"}, {"POST", "Content-Location", "/topic?id=3", 201, "13"},
		{"POST", "Location", "http://example.com/topic?id=2", 201, "12"},
		{"POST", "Location", "http://other.example/topic?id=2", 201, "1"}, {"POST", "Location", "%", 201, "1"},
	} {
		for _, how := range []string{"WriteHeader", "Write", "Flush"} {
			if how != "WriteHeader" && c.status != 200 {
				continue
			}
			b := build(t, respcache.Config{}, numbered())
			for _, id := range []string{"1", "2", "3"} {
				b.get("/topic?id=" + id)
			}
			r := httptest.NewRequest(c.method, "/topic?id=1", http.NoBody)
			rec := httptest.NewRecorder()
			invalidate := b.Invalidation(rec, r, &verdict.Verdict{Verdict: hottype.Verdict{Allowed: true}}, "")
			if invalidate == nil {
				invalidate = func(int) {}
			}
			httplimit.ServeWithStatus(rec, r, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.name != "" {
					w.Header().Set(c.name, c.value)
				}
				switch how {
				case "WriteHeader":
					w.WriteHeader(c.status)
				case "Write":
					fmt.Fprint(w, "x")
				case "Flush":
					_ = http.NewResponseController(w).Flush()
				}
			}), invalidate)
			if c.status >= 200 && rec.Code != c.status {
				t.Errorf("%+v, %s: %d", c, how, rec.Code)
			}
			gone := ""
			for _, id := range []string{"1", "2", "3"} {
				if w := b.get("/topic?id=" + id); !strings.Contains(w.Header().Get("Cache-Status"), "hit") {
					gone += id
				}
			}
			if gone != c.want {
				t.Errorf("%+v, %s: %q are taken out", c, how, gone)
			}
		}
	}
}

// A fetch that fails counts once, whether a stored answer took its place or not; a panic that the client's
// server does not see is logged.
func TestStats_CountFailedFetchOnce(t *testing.T) {
	t.Parallel()
	fails := func(with any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if with != nil {
				panic(with)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	for _, c := range []struct {
		name   string
		at     time.Duration // 0: nothing is stored before
		with   any
		failed uint64
		logged int
		panics bool // for the client
	}{
		{"first, status", 0, nil, 0, 0, false},
		{"first, panic", 0, "x", 1, 0, true},
		{"behind a stale answer, status", 5 * time.Second, nil, 1, 0, false},
		{"behind a stale answer, panic", 5 * time.Second, "x", 1, 1, false},
		{"behind a stale answer, aborted", 5 * time.Second, http.ErrAbortHandler, 1, 0, false},
		{"before an old answer, status", 30 * time.Second, nil, 1, 0, false},
		{"before an old answer, panic", 30 * time.Second, "x", 1, 1, false},
		{"before an old answer, aborted", 30 * time.Second, http.ErrAbortHandler, 1, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			b := build(t, respcache.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, numbered())
			if c.at > 0 {
				b.get("/topic?id=1")
				b.now.Store(int64(c.at))
			}
			b.upstream = fails(c.with)
			panicked := func() (p any) {
				defer func() { p = recover() }()
				b.get("/topic?id=1")
				return nil
			}()
			synctest.Wait()
			s := b.Stats()
			if s.Failed != c.failed || strings.Count(log.String(), "\n") != c.logged || (panicked != nil) != c.panics {
				t.Errorf("%s: %d failed, panic %v, log %q", c.name, s.Failed, panicked, &log)
			}
		})
	}
}
