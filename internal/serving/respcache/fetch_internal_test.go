package respcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// loneFetch is a fetch of an entry at a time, whose client reads nothing yet.
func loneFetch(t *testing.T, prior *answer, plain bool, at time.Time) *fetch {
	t.Helper()
	s := newStore(1 << 20)
	sh := &s.shards[0]
	r := httptest.NewRequest(http.MethodHead, "/topic?id=1", strings.NewReader("body"))
	e := sh.findEntry(r, []byte("t"), "topic?id=1", true, "")
	if prior != nil {
		s.setAnswer(sh, e, prior, prior.received)
	}
	f := newFetch(s, sh, e, prior, testPolicy())
	e.fetch, f.plain = f, plain
	r.Header = header("Accept", "x", "Cookie", "a=b", "If-None-Match", "c", "If-Modified-Since", "d", "Range", "e",
		"If-Range", "f", "X-Real-Ip", "192.0.2.1")
	f.prepare(t.Context(), r, time.Minute, func() time.Time { return at })
	return f
}

func storedAnswer(at time.Time, fields ...string) *answer {
	a, _ := storableAnswer(200, header(fields...), testPolicy(), at)
	a.setBody([]byte("old"))
	return a
}

// A fetch asks the handler for the whole response, with the conditions of the stored answer instead of the client's.
func TestFetch_RequestsWholeAnswer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	modified := now.Add(-time.Hour).Format(http.TimeFormat)
	plain := header("User-Agent", "Mozilla/5.0 (compatible; hotparam)", "X-Real-Ip", "192.0.2.1",
		"Accept-Encoding", "identity")
	client := plain.Clone()
	client.Set("Accept", "x")
	for _, c := range []struct {
		prior []string
		plain bool
		strip bool
		more  []string
	}{
		{}, {plain: true}, {strip: true}, {prior: []string{"Etag", "v"}, more: []string{"If-None-Match", "v"}},
		{prior: []string{"Last-Modified", modified}, plain: true, more: []string{"If-Modified-Since", modified}},
		{prior: []string{"Etag", "v", "Last-Modified", modified},
			more: []string{"If-None-Match", "v", "If-Modified-Since", modified}},
	} {
		var prior *answer
		if c.prior != nil {
			prior = storedAnswer(now, c.prior...)
		}
		f := loneFetch(t, prior, c.plain, now)
		if c.strip {
			f.serve.StripCookies = true
			f.prepare(t.Context(), f.request, time.Minute, f.now)
		}
		want := client.Clone()
		if c.plain {
			want = plain.Clone()
		}
		maps.Copy(want, header(c.more...))
		body, _ := io.ReadAll(f.request.Body)
		if !maps.EqualFunc(f.request.Header, want, slices.Equal) || f.request.Method != http.MethodGet ||
			len(body) > 0 {
			t.Errorf("%+v: %s %v, want %v", c, f.request.Method, f.request.Header, want)
		}
		f.cancel()
	}
}

// A fetch that no client reads ends with its time; each ends with the cache, and not with the client that began it.
func TestFetch_OutlivesItsClient(t *testing.T) {
	t.Parallel()
	all, end := context.WithCancel(t.Context())
	client, left := context.WithCancel(t.Context())
	f := loneFetch(t, nil, false, time.Unix(1000, 0))
	f.prepare(all, f.request.WithContext(client), time.Hour, f.now)
	left()
	if f.request.Context().Err() != nil {
		t.Error("it ended with its client")
	}
	end()
	<-f.request.Context().Done()
	close(f.gone)
	f.prepare(t.Context(), f.request.WithContext(t.Context()), time.Nanosecond, f.now)
	<-f.request.Context().Done()
}

// Each end of a fetch has its effect on the entry.
func TestFetch_AppliesOutcomeToEntry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	answers := func(status int, body string, fields ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), header(fields...))
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	const none, marked, later = "", "uncacheable", "retry"
	for _, c := range []struct {
		name      string
		age       time.Duration // of the stored answer: fresh 1 s, stale 11 s, on errors 61 s; 0 for none
		plain     bool
		how       http.HandlerFunc
		body      string // stored afterwards; "" if there is no answer
		next      string
		notStored int
		fails     bool // the entry is failing
		broken    bool
		backup    bool // the stored response was given instead
	}{
		{"first", 0, false, answers(200, "abc"), "abc", none, 0, false, false, false},
		{"nothing written", 0, false, func(http.ResponseWriter, *http.Request) {}, "-", none, 0, false, false, false},
		{"not to be kept", 0, false, answers(403, ""), "", marked, 1, false, false, false},
		{"not to be kept, plain", 0, true, answers(403, ""), "", marked, 0, false, false, false},
		{"error", 0, false, answers(500, ""), "", marked, 1, false, false, false},
		{"panic", 0, false, func(http.ResponseWriter, *http.Request) { panic("x") }, "", marked, 1, false, true, false},
		{"short", 0, false, answers(200, "abc", "Content-Length", "5"), "", marked, 1, false, true, false},
		{"whole", 0, false, answers(200, "abc", "Content-Length", "3"), "abc", none, 0, false, false, false},
		{"a length that is none", 0, false, answers(200, "abc", "Content-Length", "+3"), "abc", none, 0, false, false,
			false},
		{"trailer", 0, false, answers(200, "abc", http.TrailerPrefix+"X", "y"), "", marked, 1, false, false, false},
		{"304 for nothing", 0, false, answers(304, ""), "", marked, 1, false, false, false},
		{"stale, new", 5 * time.Second, true, answers(200, "abc"), "abc", none, 0, false, false, false},
		{"stale, not to be kept", 5 * time.Second, false, answers(403, ""), "old", later, 1, false, false, false},
		{"stale, not to be kept, plain", 5 * time.Second, true, answers(403, ""), "old", later, 0, false, false, false},
		{"stale, error", 5 * time.Second, false, answers(503, ""), "old", later, 1, true, false, true},
		{"old, not to be kept", 30 * time.Second, false, answers(403, ""), "old", later, 1, false, false, false},
		{"old, not to be kept, plain", 30 * time.Second, true, answers(403, ""), "", marked, 0, false, false, false},
		{"old, error", 30 * time.Second, true, answers(503, ""), "old", later, 0, true, false, true},
		{"old, 501", 30 * time.Second, true, answers(501, "abc"), "abc", none, 0, false, false, false},
		{"old, panic", 30 * time.Second, true, func(http.ResponseWriter, *http.Request) { panic("x") }, "old", later, 0,
			true,
			false, true},
		{"over, not to be kept", 70 * time.Second, false, answers(403, ""), "", marked, 1, false, false, false},
		{"confirmed", 30 * time.Second, false, answers(304, "", "Etag", "v"), "old", none, 0, false, false, false},
	} {
		var prior *answer
		if c.age > 0 {
			prior = storedAnswer(now.Add(-c.age), "Etag", "v")
		}
		f := loneFetch(t, prior, c.plain, now)
		f.run(c.how)
		e := f.entry
		if e.resource.vary != nil || f.entry.fetch != nil || !f.finished || !f.released {
			t.Errorf("%s: %+v", c.name, f)
		}
		body := ""
		if e.answer != nil {
			if body = string(e.answer.body); body == "" {
				body = "-"
			}
		}
		next := none
		switch second := now.Add(time.Second); {
		case e.uncacheableUntil.Equal(second) && e.retry.IsZero():
			next = marked
		case e.retry.Equal(second) && e.uncacheableUntil.IsZero():
			next = later
		case !e.retry.IsZero() || !e.uncacheableUntil.IsZero():
			next = fmt.Sprint(e.retry, e.uncacheableUntil)
		}
		if body != c.body || next != c.next || e.notStored != c.notStored || e.failing != c.fails ||
			(f.broken != nil) != c.broken ||
			(prior != nil && f.result == prior) != c.backup {
			t.Errorf("%s: %q, %s, %d notStored, failing %v, broken %v, backup %v; want %+v", c.name, body, next,
				e.notStored, e.failing, f.broken, prior != nil && f.result == prior, c)
		}
		f.detachClient()
		if got := f.store.bytes.Load(); got != e.bytes || f.shard.lru.Len() != 1 {
			t.Errorf("%s: %d bytes are counted, and %d are in the only entry of %d", c.name, got, e.bytes,
				f.shard.lru.Len())
		}
	}
}

// Room for a body is taken for all of it at the first part if its length is known, else for each part.
func TestFetch_ReservesRoomForBody(t *testing.T) {
	t.Parallel()
	for length, want := range map[string][]int64{"": {3, 5, 9}, "9": {9, 9, 9}} {
		f := loneFetch(t, nil, false, time.Unix(1000, 0))
		f.run(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			for i, part := range []string{"abc", "de", "fghi"} {
				if n, err := io.WriteString(w, part); n != len(part) || err != nil {
					t.Errorf("%d, %v", n, err)
				}
				if got := f.store.bytes.Load(); got != want[i] {
					t.Errorf("length %q: %d bytes after part %d, want %d", length, got, i, want[i])
				}
			}
			if n, err := io.WriteString(w, "j"); length != "" && (n != 0 || !errors.Is(err, http.ErrContentLength)) {
				t.Errorf("more than the length: %d, %v", n, err)
			}
		}))
		if n, err := f.Write([]byte("k")); n != 0 || !errors.Is(err, errFinished) {
			t.Errorf("after the end: %d, %v", n, err)
		}
		if length != "" && string(f.entry.answer.body) != "abcdefghi" {
			t.Errorf("%q", f.entry.answer.body)
		}
	}
}
