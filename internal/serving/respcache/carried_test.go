package respcache_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// An upstream that repeats the request in its response repeats nothing that the first client wrote. All later clients
// get the same bytes as if the first one had sent nothing.
func TestFirstFetch_CarriesNothingForOthers(t *testing.T) {
	t.Parallel()
	reflect := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header) }
	for _, name := range []string{
		"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "B3", "Baggage", "Cache-Control", "Cdn-Loop",
		"Content-Type", "Dnt", "Pragma", "Priority", "Referer", "Save-Data", "Sec-Ch-Ua", "Sec-Fetch-Site", "Sec-Gpc",
		"Sentry-Trace", "Te", "Traceparent", "Tracestate", "Uber-Trace-Id", "User-Agent", "Via", "X-Amzn-Trace-Id",
		"X-B3-Traceid", "X-Cloud-Trace-Context", "X-Correlation-Id", "X-Request-Id", "X-Request-Start",
	} {
		b := build(t, respcache.Config{}, reflect)
		clean := b.get("/topic?id=2").Body.String()
		first := b.get("/topic?id=1", name, "<script>alert(1)</script>")
		if got := b.get("/topic?id=1"); got.Body.String() != clean || first.Body.String() != clean ||
			b.asked.Load() != 2 || !strings.Contains(first.Header().Get("Cache-Status"), "stored") {
			t.Errorf("%s: the first client got %q, %v; others %q", name, first.Body, first.Header(), got.Body)
		}
	}
}

// The types and languages that a client accepts reach the upstream, as far as they are harmless. A response that may
// depend on them without a Vary is confirmed at once by a fetch without them.
func TestFirstFetch_CarriesWhatItsClientAccepts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Header["Accept"], r.Header["Accept-Language"])
		})
		first := b.get("/topic?id=1", "Accept", `application/json;v=1, "<b>", x/<i>`, "Accept-Language", "DE;q=0.5,fr",
			"Accept", strings.Repeat("x", 600))
		if got := first.Body.String(); got != "[application/json;v=1] [fr, de;q=0.5]" {
			t.Errorf("the first fetch had %s", got)
		}
		b.get("/topic?id=1")
		synctest.Wait()
		if got := b.get("/topic?id=1").Body.String(); got != "[] []" || b.asked.Load() != 2 {
			t.Errorf("others get %s, asked %d times", got, b.asked.Load())
		}
		b.get("/topic?id=2", "Accept", "*/*", "Accept-Language", "*")
		b.get("/topic?id=2")
		synctest.Wait()
		if b.asked.Load() != 3 {
			t.Error("an answer to any type and language is confirmed")
		}
	})
}

// A client gets the response for its own fields, also if the upstream names a field that fetches do not carry.
func TestFirstFetch_IsRepeatedForADroppedField(t *testing.T) {
	t.Parallel()
	for _, listed := range []bool{false, true} {
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Vary", "Accept-Language, User-Agent")
			fmt.Fprint(w, r.Header["User-Agent"])
		})
		if b.serve.Vary = nil; listed {
			b.serve.Vary = []string{"Accept-Language", "User-Agent"}
		}
		for i, agent := range []string{"phone", "desktop", "phone", "phone"} {
			w := b.get("/topic?id=1", "User-Agent", agent)
			if w.Body.String() != "["+agent+"]" || len(b.gate.counted) != i+1 {
				t.Errorf("%v, %d: %s got %s, %d counted", listed, i, agent, w.Body, len(b.gate.counted))
			}
		}
		if want := map[bool]int64{false: 5, true: 2}[listed]; b.asked.Load() != want {
			t.Errorf("%v: asked %d times, want %d", listed, b.asked.Load(), want)
		}
	}
}

// No client gets a coding that it did not accept from an upstream that compresses without a Vary, and each that
// accepts gzip gets it.
func TestCache_SendsOnlyAcceptedCodings(t *testing.T) {
	t.Parallel()
	line := rapid.StringOfN(rapid.RuneFrom([]rune("gziprbq=0.5;*, ")), 0, 12, -1)
	known := rapid.SampledFrom([]string{"", "gzip", "gzip, br", "GZIP;q=0.1", "gzip;q=0", "identity", "*", "br;q=1",
		"gzip, deflate, br, zstd", "gzip;q=1.0, *;q=0.5", "*;q=0", "gzip;q=0.000, gzip"})
	rapid.Check(t, func(rt *rapid.T) {
		encoded := 0
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if slices.Contains(strings.Split(r.Header.Get("Accept-Encoding"), ", "), "gzip") {
				w.Header().Set("Content-Encoding", "gzip")
				encoded++
			}
			fmt.Fprint(w, "page")
		})
		b.serve.Vary = nil
		for range rapid.IntRange(2, 20).Draw(rt, "clients") {
			accepted := rapid.OneOf(known, line).Draw(rt, "accepted")
			w := b.get("/topic?id=1", "Accept-Encoding", accepted)
			got := w.Header().Get("Content-Encoding") == "gzip"
			if got && !strings.Contains(strings.ToLower(accepted), "gzip") || got && accepted == "gzip;q=0" ||
				!got && strings.HasPrefix(accepted, "gzip, ") {
				rt.Errorf("%q: gzip is %v", accepted, got)
			}
		}
		if encoded > 8 || b.asked.Load() > 16 {
			rt.Errorf("asked %d times, of those %d for gzip", b.asked.Load(), encoded)
		}
	})
}
