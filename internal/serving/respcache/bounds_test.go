package respcache_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// Each lifetime ends to the nanosecond: of fresh answers, of answers that are served while they are fetched again, and
// of answers that are served because the handler fails. After that they are fetched first.
func TestCache_EndsEachLifetime(t *testing.T) {
	t.Parallel()
	for _, l := range lifetimes {
		if l.fresh == 0 {
			continue
		}
		stale := l.fresh + l.stale
		failed := max(stale, l.fresh+l.ifError)
		for _, at := range []time.Duration{0, l.fresh - 1, l.fresh, stale - 1, stale, failed - 1, failed} {
			for _, fails := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					b := build(t, respcache.Config{}, numbered("Cache-Control", l.control))
					b.get("/topic?id=1")
					if fails {
						b.upstream = func(w http.ResponseWriter,
							_ *http.Request) {
							w.WriteHeader(http.StatusBadGateway)
						}
					}
					b.now.Store(int64(at))
					w := b.get("/topic?id=1")
					synctest.Wait()
					want, asked := "answer 1", int64(2)
					switch {
					case at < l.fresh:
						asked = 1
					case at < stale, at < failed && fails:
					case fails:
						want = ""
					default:
						want = "answer 2"
					}
					if w.Body.String() != want || b.asked.Load() != asked {
						t.Errorf("%q at %v, fails %v: %d %q %v, asked %d times; want %q and %d", l.control, at, fails,
							w.Code,
							w.Body, w.Header(), b.asked.Load(), want, asked)
					}
				})
			}
		}
	}
}

// An answer that is not to be kept makes its variant uncacheable for one second: requests go to the
// handler side by side. After it they wait for each other again.
func TestCache_MarksUncacheableForASecond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   time.Duration
		want int64 // the number of three requests in the handler at a time
	}{{0, 3}, {time.Second - 1, 3}, {time.Second, 1}, {-1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			b := build(t, respcache.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", "private")
			})
			b.get("/topic?id=1")
			hold := make(chan struct{})
			b.upstream = func(http.ResponseWriter, *http.Request) { <-hold }
			b.advance(c.at)
			b.asked.Store(0)
			done := make(chan struct{})
			for range 3 {
				go func() { b.get("/topic?id=1"); done <- struct{}{} }()
			}
			synctest.Wait()
			if got := b.asked.Load(); got != c.want {
				t.Errorf("%v later: %d at a time, want %d", c.at, got, c.want)
			}
			close(hold)
			for range 3 {
				<-done
			}
		})
	}
}

// A refresh that the limits deny is tried again after Retry-After, and after a second at most.
func TestCache_RetriesDeniedRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, respcache.Config{}, numbered())
		b.get("/topic?id=1")
		b.gate.tokens.Store(0)
		charged := b.gate.charged.Load()
		for i, at := range []time.Duration{2 * time.Second, 3*time.Second - 1, 3 * time.Second, 4*time.Second - 1} {
			b.now.Store(int64(at))
			b.get("/topic?id=1")
			synctest.Wait()
			if got, want := b.gate.charged.Load()-charged, int64(i/2+1); got != want {
				t.Errorf("%v: charged %d times, want %d", at, got, want)
			}
		}
		if s := b.Stats(); s.FetchDenied != 2 || s.Fetched != 1 || s.Stale != 4 || s.Hits != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A request that waited in vain is denied by the verdict of the key alone.
func TestCache_TimeoutHasVerdictOfKey(t *testing.T) {
	t.Parallel()
	for hot, reason := range map[bool]hottype.Reason{true: hottype.ReasonHot, false: hottype.ReasonOverride} {
		synctest.Test(t, func(t *testing.T) {
			b := build(t, respcache.Config{}, func(w http.ResponseWriter,
				_ *http.Request) {
				time.Sleep(time.Minute / 2)
			})
			b.serve.Wait = time.Second
			go b.get("/topic?id=1")
			synctest.Wait()
			v := verdict.Verdict{Verdict: hottype.Verdict{
				Allowed: true, Reason: hottype.ReasonCached, Hot: hot, Key: "topic?id=1", Rule: "ip", Limit: 1,
				Window: 2, Remaining: 3, ResetAfter: 4,
			}, Cache: &b.serve}
			began := time.Now()
			b.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/topic?id=1", http.NoBody),
				&respcache.PendingRequest{Verdict: v, Count: b.gate.count}, nil, "")
			got := b.gate.counted[len(b.gate.counted)-1]
			if got.Allowed || got.Reason != reason || got.Rule != "topic" || got.RetryAfter != time.Second ||
				got.Limit != 0 ||
				got.Window != 0 || got.Remaining != 0 || got.ResetAfter != 0 || time.Since(began) != time.Second {
				t.Errorf("after %v: %+v", time.Since(began), got)
			}
			time.Sleep(time.Minute)
		})
	}
}

// Run sweeps each second, and ends the fetches with its context.
func TestRun_SweepsEachSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		served := true
		b := build(t, respcache.Config{Served: func(time.Time, hottype.Key) bool { return served }}, numbered())
		ended := make(chan error)
		go func() { ended <- b.Run(t.Context()) }()
		b.get("/topic?id=1")
		served = false
		time.Sleep(time.Second - time.Nanosecond)
		if n := b.Stats().Entries; n != 1 {
			t.Errorf("%d entries before a second has passed", n)
		}
		time.Sleep(2 * time.Nanosecond)
		if n := b.Stats().Entries; n != 0 {
			t.Errorf("%d entries after the first sweep", n)
		}
		select {
		case err := <-ended:
			t.Errorf("ended: %v", err)
		default:
		}
		go func() { <-ended }()
	})
}

// A response with a validator is kept for a minute more than it may be served.
func TestSweep_LeavesAnswersForValidation(t *testing.T) {
	t.Parallel()
	for etag, until := range map[string]time.Duration{"": 61 * time.Second, `"1"`: 121 * time.Second} {
		var fields []string
		if etag != "" {
			fields = []string{"Etag", etag}
		}
		b := build(t, respcache.Config{}, numbered(fields...))
		b.get("/topic?id=1")
		if b.Sweep(start().Add(until - 1)); b.Stats().Entries != 1 {
			t.Errorf("%q: gone before %v", etag, until)
		}
		if b.Sweep(start().Add(until)); b.Stats().Entries != 0 {
			t.Errorf("%q: kept for %v", etag, until)
		}
	}
}

// A 304 changes fields, but none that is about the bytes that were stored, and is as old as it says.
func TestCache_MergesFieldsOf304(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			if r.Header.Get("If-None-Match") == "" {
				for _, name := range []string{"Content-Encoding", "Content-Md5", "X-Kept", "X-Changed"} {
					h.Set(name, "old")
				}
				h.Set("Etag", `"old"`)
				h.Set("Date", start().Format(http.TimeFormat))
				fmt.Fprint(w, "body")
				return
			}
			for _, name := range []string{"Content-Encoding", "Content-Md5", "X-Changed", "X-New"} {
				h.Set(name, "new")
			}
			h.Set("Etag", `W/"new"`)
			h.Set("Content-Length", "999")
			h.Set("Cache-Control", "max-age=60")
			h.Set("Date", start().Add(-20*time.Second).Format(http.TimeFormat))
			w.WriteHeader(http.StatusNotModified)
		})
		b.get("/topic?id=1")
		b.advance(2 * time.Second)
		b.get("/topic?id=1")
		synctest.Wait()
		w := b.get("/topic?id=1")
		for name, want := range map[string]string{
			"Content-Encoding": "old", "Content-Md5": "old", "X-Kept": "old", "X-Changed": "new", "X-New": "new",
			"Etag":           `"old"`,
			"Content-Length": "4", "Age": "22", "Cache-Status": "hotparam; hit; ttl=38",
			"Date": start().Add(-20 * time.Second).Format(http.TimeFormat),
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if w.Body.String() != "body" {
			t.Errorf("%q", w.Body)
		}
	})
}

// Fields of one connection or one moment are not stored, nor are the fields that Connection names.
func TestCache_StoresNoHopByHopFields(t *testing.T) {
	t.Parallel()
	hop := []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info",
		"Proxy-Authorization",
		"Proxy-Connection", "Te", "Transfer-Encoding", "Upgrade", "X-Named", "X-Other"}
	fields := []string{"Connection", "close, x-named", "Connection", "X-Other"}
	for _, name := range hop[1:] {
		fields = append(fields, name, "x")
	}
	b := build(t, respcache.Config{}, numbered(append(fields, "X-Stays", "a", "X-Stays", "b")...))
	b.get("/topic?id=1")
	w := b.get("/topic?id=1")
	for _, name := range hop {
		if v, ok := w.Header()[name]; ok {
			t.Errorf("%s: %q", name, v)
		}
	}
	if got := w.Header()["X-Stays"]; strings.Join(got, ",") != "a,b" ||
		w.Header().Get("Date") != start().Format(http.TimeFormat) {
		t.Errorf("%v", w.Header())
	}
}
