package respcache_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// A stored answer without Cache-Control and Vary counts for its rule and upstream.
func TestSilent_CountsStoredAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		fields []string
		want   uint64
	}{
		{"neither", []string{"Content-Type", "text/html", "Etag", `"1"`}, 1},
		{"Cache-Control", []string{"Cache-Control", "public"}, 0},
		{"Vary", []string{"Vary", "Accept-Encoding"}, 0},
		{"the targeted field", []string{"Cdn-Cache-Control", "max-age=60"}, 0},
		{"not stored", []string{"Set-Cookie", "a=1"}, 0},
		{"too long", nil, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := build(t, respcache.Config{}, numbered(tt.fields...))
			if tt.name == "too long" {
				b.serve.MaxBody = 1
			}
			b.get("/topic?id=1")
			b.get("/topic?id=1") // a hit counts nothing
			synctest.Wait()
			var want []respcache.SilentStats
			if tt.want > 0 {
				want = []respcache.SilentStats{{Rule: "topic", Stored: tt.want}}
			}
			if got := b.Silent(); !slices.Equal(got, want) {
				t.Errorf("%s: %+v, want %+v", tt.name, got, want)
			}
		})
	}
}

// An answer that a 304 confirms has the fields of both.
func TestSilent_IgnoresConfirmedAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", `"1"`)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Vary", "X-Lang")
		})
		b.get("/topic?id=1")
		b.advance(2 * time.Second)
		b.get("/topic?id=1")
		synctest.Wait()
		if got := b.Silent(); b.asked.Load() != 2 || len(got) != 0 {
			t.Errorf("asked %d times, %+v", b.asked.Load(), got)
		}
	})
}

// The number of sources is bounded by the rules: the paths of the catch-all rule are one.
func TestSilent_BoundsSources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, respcache.Config{}, nil)
		for _, tt := range []struct{ key, target, upstream string }{
			{"topic?id=1", "/topic?id=1", "slow"}, {"topic?id=2", "/topic?id=2", ""},
			{"topic?id=3", "/topic?id=3", "slow"}, {"/a?", "/a", ""}, {"/b?", "/b", ""},
		} {
			b.fetch(tt.key, tt.target, tt.upstream)
		}
		synctest.Wait()
		want := []respcache.SilentStats{{"*", "", 2}, {"topic", "", 1}, {"topic", "slow", 2}}
		if got := b.Silent(); !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// fetch asks for a target of a key, which an upstream answers without a field.
func (b *bundle) fetch(key, target, upstream string) {
	v := verdict.Verdict{Verdict: hottype.Verdict{Allowed: true, Hot: true, Key: hottype.Key(key)}, Cache: &b.serve}
	left := &respcache.PendingRequest{Verdict: v, Count: b.gate.count, Upstream: upstream}
	b.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, http.NoBody), left,
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "")
}
