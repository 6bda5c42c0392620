package respcache_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/serving/respcache"
)

func TestConditionsAndParts(t *testing.T) {
	t.Parallel()
	modified := start().Add(-time.Hour).Format(http.TimeFormat)
	for _, warm := range []bool{true, false} { // from the cache, and by the request that fetches it
		for _, c := range []struct {
			method string
			fields []string
			code   int
			body   string
		}{
			{"GET", nil, 200, "answer 1"},
			{"HEAD", nil, 200, ""},
			{"GET", []string{"If-None-Match", `"v1"`}, 304, ""},
			{"GET", []string{"If-None-Match", `W/"v0", "v1"`}, 304, ""},
			{"GET", []string{"If-None-Match", `"v2"`}, 200, "answer 1"},
			{"GET", []string{"If-Modified-Since", modified}, 304, ""},
			{"GET", []string{"If-Modified-Since", modified, "If-None-Match", `"v2"`}, 200, "answer 1"},
			{"HEAD", []string{"If-None-Match", `"v1"`}, 304, ""},
			{"GET", []string{"Range", "bytes=0-2"}, 206, "ans"},
			{"GET", []string{"Range", "bytes=-1"}, 206, "1"},
			{"GET", []string{"Range", "bytes=99-"}, 416, "invalid range: failed to overlap\n"},
			{"GET", []string{"Range", "bytes=0-2", "If-Range", `"v0"`}, 200, "answer 1"},
		} {
			if !warm && len(c.fields) > 0 && c.fields[0] == "Range" {
				continue // passes by
			}
			b := build(t, respcache.Config{}, numbered("Etag", `"v1"`, "Last-Modified", modified, "Content-Type",
				"text/plain"))
			if warm {
				b.get("/topic?id=1")
			}
			w := b.ask(c.method, "/topic?id=1", c.fields...)
			if w.Code != c.code || w.Body.String() != c.body {
				t.Errorf("warm %v, %s %v: %d %q", warm, c.method, c.fields, w.Code, w.Body)
			}
			if w.Code == 200 && warm && w.Header().Get("Content-Length") != "8" {
				t.Errorf("%v", w.Header())
			}
		}
	}
}

// A stale answer with a validator is asked for by that, and is fresh again after a 304.
func TestRevalidation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Header.Get("If-None-Match"))
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("X-Seen", fmt.Sprint(len(asked)))
			if r.Header.Get("If-None-Match") == `"v1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, "body")
		})
		b.serve.Stale = 0
		for i, want := range []string{"hotparam; fwd=miss; stored", "hotparam; fwd=stale; stored"} {
			w := b.get("/topic?id=1")
			if w.Code != 200 || w.Body.String() != "body" || w.Header().Get("Cache-Status") != want ||
				w.Header().Get("X-Seen") != fmt.Sprint(i+1) {
				t.Errorf("%d: %d %s %v", i, w.Code, w.Body, w.Header())
			}
			b.advance(90 * time.Second / 2)
			synctest.Wait()
		}
		if len(asked) != 2 || asked[1] != `"v1"` {
			t.Errorf("%q", asked)
		}
	})
}

// A POST that succeeds takes out what is stored for its target.
func TestInvalidation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		fields []string
		want   string
	}{
		{200, nil, "answer 2"}, {0, nil, "answer 2"}, {303, nil, "answer 2"}, {403, nil, "answer 1"}, {503, nil, "answer 1"},
	} {
		b := build(t, respcache.Config{}, numbered())
		b.get("/topic?id=1")
		b.post("/topic?id=1", c.status)
		if w := b.get("/topic?id=1"); w.Body.String() != c.want {
			t.Errorf("%d: %s", c.status, w.Body)
		}
	}
}

// An answer that no other request may use is fetched by each for itself, and none waits.
func TestNoCacheWithValidator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("Etag", `"v1"`)
			w.WriteHeader(http.StatusOK)
			<-hold
			fmt.Fprint(w, "body")
		})
		done := make(chan string)
		for range 5 {
			go func() { done <- b.get("/topic?id=1").Body.String() }()
		}
		synctest.Wait()
		if b.asked.Load() != 5 {
			t.Errorf("%d asked while the first is under way", b.asked.Load())
		}
		close(hold)
		for range 5 {
			if body := <-done; body != "body" {
				t.Errorf("%q", body)
			}
		}
	})
}
