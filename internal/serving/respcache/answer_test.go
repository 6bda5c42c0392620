package respcache_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/serving/respcache"
)

func TestCache_AnswersConditionalRequests(t *testing.T) {
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

// A partial answer is stored for requests with the same Range, target and fields of Vary, and smaller ranges are
// cut from it.
func TestCache_StoresPartialAnswers(t *testing.T) {
	t.Parallel()
	asked := 0
	file := bytes.NewReader([]byte("0123456789"))
	b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header()["Vary"], w.Header()["Etag"] = []string{"Accept-Language"}, []string{`"v1"`}
		http.ServeContent(w, r, "", time.Time{}, file)
	})
	b.serve.Vary = []string{"Accept-Language"}
	for _, c := range []struct {
		method, part, body string
		asked              int // in all
		fields             []string
	}{
		{"GET", "bytes=-5", "56789", 1, nil},
		{"GET", "bytes=-5", "56789", 1, nil},
		{"GET", "bytes=6-8", "678", 1, nil},
		{"GET", "bytes=6-6", "6", 1, nil},
		{"GET", "bytes=6-9", "6789", 1, nil},
		{"GET", "bytes=-4", "6789", 2, nil},                              // its first byte is not known before
		{"GET", "bytes=4-7", "4567", 3, nil},                             // begins before the part
		{"GET", "bytes=4-8", "45678", 4, nil},                            // ends behind it
		{"GET", "bytes=5-6", "56", 4, nil},                               // of the last part
		{"GET", "bytes=05-6", "56", 5, nil},                              // not spelt as usual
		{"GET", "bytes=5-6", "56", 5, nil},                               // an exact one
		{"GET", "bytes=5-6", "56", 6, []string{"Accept-Language", "de"}}, // another variant
		{"GET", "bytes=5-5", "5", 6, []string{"Accept-Language", "de"}},  // of that
		{"GET", "bytes=4-4", "4", 7, nil},                                // not of the other variant
		{"GET", "bytes=5-6", "56", 8, []string{"If-Range", `"v1"`}},      // passes by
		{"GET", "bytes=5-6", "", 9, []string{"If-None-Match", `"v1"`}},   // so does this
		{"HEAD", "bytes=-5", "", 10, nil},                                // and this
		{"GET", "bytes=4-7", "4567", 10, nil},                            // they changed nothing
		{"GET", "", "0123456789", 11, nil},                               // a part is not the whole
		{"GET", "bytes=1-2", "12", 11, nil},                              // of the whole
		{"GET", "bytes=-5", "56789", 11, nil},
	} {
		fields := c.fields
		if c.part != "" {
			fields = append(fields, "Range", c.part)
		}
		w := b.ask(c.method, "/topic?id=1", fields...)
		if w.Body.String() != c.body || asked != c.asked {
			t.Fatalf("%+v: %d %q, %d times asked", c, w.Code, w.Body, asked)
		}
		n, h := len(c.body), w.Header()
		if c.part != "" && n > 0 && (w.Code != 206 || h.Get("Content-Length") != fmt.Sprint(n) ||
			h.Get("Content-Range") != fmt.Sprintf("bytes %c-%c/10", c.body[0], c.body[n-1])) {
			t.Errorf("%+v: %d %v", c, w.Code, w.Header())
		}
	}
	b.post("/topic?id=1", 200)
	asked = 0
	if w := b.get("/topic?id=1", "Range", "bytes=-5"); w.Body.String() != "56789" || asked != 1 {
		t.Errorf("%q after a change, %d times asked", w.Body, asked)
	}
	b.advance(b.serve.TTL + b.serve.Stale + time.Second)
	if w := b.get("/topic?id=1", "Range", "bytes=6-7"); w.Body.String() != "67" || asked != 2 {
		t.Errorf("%q of an answer that has ended, %d times asked", w.Body, asked)
	}
}

// An upstream that answers a request for a part with the whole, or with an error, is asked by each.
func TestCache_StoresNoWholeAnswerAsPart(t *testing.T) {
	t.Parallel()
	for status, body := range map[int]string{200: "whole", 404: "none", 416: "no such part"} {
		asked := 0
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header()["Cache-Control"] = []string{"max-age=60"}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
		for i := range 3 {
			w := b.get("/topic?id=1", "Range", "bytes=0-1")
			if w.Code != status || w.Body.String() != body || asked != i+1 {
				t.Errorf("%d %q, %d times asked", w.Code, w.Body, asked)
			}
		}
	}
	asked := 0
	b := build(t, respcache.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusPartialContent) // for which it was not asked
	})
	b.get("/topic?id=1")
	if b.get("/topic?id=1"); asked != 2 {
		t.Errorf("%d times asked", asked)
	}
}

// A stale answer with a validator is asked for by that, and is fresh again after a 304.
func TestCache_RevalidatesStaleAnswer(t *testing.T) {
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

// A POST that succeeds removes the stored responses of its target.
func TestInvalidation_RemovesTargetAfterSuccess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		fields []string
		want   string
	}{
		{200, nil, "answer 2"}, {0, nil, "answer 2"}, {303, nil, "answer 2"}, {403, nil, "answer 1"},
		{503, nil, "answer 1"},
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
func TestCache_NoCacheIsFetchedWithoutWaiting(t *testing.T) {
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

// An answer that has to be validated for each request is kept for that: the next request asks by its
// validators, and gets the body that is kept.
func TestCache_NoCacheIsValidated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		modified := start().Add(-time.Hour).Format(http.TimeFormat)
		var asked []string
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Header.Get("If-None-Match")+" "+r.Header.Get("If-Modified-Since"))
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Last-Modified", modified)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, "body")
		})
		for i := range 3 {
			if w := b.get("/topic?id=1"); w.Code != 200 || w.Body.String() != "body" {
				t.Errorf("%d: %d %s", i, w.Code, w.Body)
			}
			synctest.Wait()
			b.advance(time.Second)
		}
		if want := `"v1" ` + modified; len(asked) != 3 || asked[0] != " " || asked[1] != want || asked[2] != want {
			t.Errorf("%q", asked)
		}
	})
}

// A 204, and a 304 for which the fetch did not ask, reach their client without a body, whatever length they state.
func TestCache_PassesEmptyAnswers(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		synctest.Test(t, func(t *testing.T) {
			b := build(t, respcache.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "5")
				w.WriteHeader(status)
			})
			for range 2 {
				if w := b.get("/topic?id=1"); w.Code != status {
					t.Errorf("%d: %d", status, w.Code)
				}
			}
			synctest.Wait()
			if s := b.Stats(); s.Failed != 0 || (s.Hits == 1) != (status == http.StatusNoContent) {
				t.Errorf("%d: %+v", status, s)
			}
		})
	}
}
