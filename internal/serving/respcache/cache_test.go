package respcache_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// A tape: at a second, an answer with a body and a Cache-Status.
func TestCache_ServesFreshThenStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, respcache.Config{}, numbered("Content-Type", "text/plain"))
		for _, step := range []struct {
			at           time.Duration
			body, status string
			age          string
		}{
			{0, "answer 1", "hotparam; fwd=miss; stored", ""},
			{900 * time.Millisecond, "answer 1", "hotparam; hit; ttl=0", "0"},
			{5 * time.Second, "answer 1", "hotparam; hit; ttl=-4", "5"},
			{5 * time.Second, "answer 2", "hotparam; hit; ttl=1", "0"}, // fetched behind the last one
			{80 * time.Second, "answer 3", "hotparam; fwd=stale; stored", ""},
		} {
			b.now.Store(int64(step.at))
			w := b.get("/topic?id=1")
			if w.Body.String() != step.body || w.Header().Get("Cache-Status") != step.status ||
				w.Header().Get("Age") != step.age {
				t.Errorf("%v: %s %v, want %+v", step.at, w.Body, w.Header(), step)
			}
			synctest.Wait()
		}
		if s := b.Stats(); s.Hits != 2 || s.Stale != 1 || s.Fetched != 3 || s.Entries != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// One request is under way for all clients; each gets the whole answer.
func TestCache_FetchesOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "first ")
			time.Sleep(time.Second)
			fmt.Fprint(w, "second")
		})
		got := make(chan string)
		for range 20 {
			go func() { got <- b.get("/topic?id=1").Body.String() }()
		}
		for range 20 {
			if body := <-got; body != "first second" {
				t.Errorf("%q", body)
			}
		}
		if b.asked.Load() != 1 || b.gate.charged.Load() != 1 {
			t.Errorf("asked %d times, charged %d", b.asked.Load(), b.gate.charged.Load())
		}
		if s := b.Stats(); s.Collapsed != 19 || s.Hits != 19 || s.Fetched != 1 || len(b.gate.counted) != 20 {
			t.Errorf("%d counted, %+v", len(b.gate.counted), s)
		}
	})
}

func TestCache_DeniesAfterWaitTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := build(t, respcache.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			<-release
			fmt.Fprint(w, "late")
		})
		b.serve.Wait = 100 * time.Millisecond
		first := make(chan string)
		go func() { first <- b.get("/topic?id=1").Body.String() }()
		synctest.Wait()
		if w := b.get("/topic?id=1"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		close(release)
		if body := <-first; body != "late" {
			t.Errorf("%q", body)
		}
		if s := b.Stats(); s.TimedOut != 1 {
			t.Errorf("%+v", s)
		}
		if n := len(b.gate.counted); n != 2 || b.gate.counted[1].Allowed {
			t.Errorf("%+v", b.gate.counted)
		}
	})
}

// While the key's limit denies fetches, stale answers are served for as long as they may be.
func TestCache_ServesStaleWhileLimitDenies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, respcache.Config{}, numbered())
		b.gate.tokens.Store(1)
		b.get("/topic?id=1")
		for _, c := range []struct {
			at   time.Duration
			code int
		}{{5 * time.Second, 200}, {30 * time.Second, 200}, {2 * time.Minute, 429}} {
			b.now.Store(int64(c.at))
			if w := b.get("/topic?id=1"); w.Code != c.code || c.code == 200 && w.Body.String() != "answer 1" {
				t.Errorf("%v: %d %s", c.at, w.Code, w.Body)
			}
			synctest.Wait()
		}
		if b.asked.Load() != 1 || b.Stats().FetchDenied != 3 {
			t.Errorf("asked %d times, %+v", b.asked.Load(), b.Stats())
		}
	})
}

func TestCache_PurgesAndSweeps(t *testing.T) {
	t.Parallel()
	hot := true
	b := build(t, respcache.Config{Served: func(time.Time, hottype.Key) bool { return hot }}, numbered())
	b.get("/topic?id=1")
	if n := b.Purge("topic?id=2"); n != 0 {
		t.Errorf("%d purged of another key", n)
	}
	if n := b.Purge("topic?id=1"); n != 1 || b.Stats().Bytes != 0 {
		t.Errorf("%d purged, %+v", n, b.Stats())
	}
	if w := b.get("/topic?id=1"); w.Body.String() != "answer 2" {
		t.Errorf("%s", w.Body)
	}
	b.Sweep(start())
	if b.Stats().Entries != 1 {
		t.Error("swept what is fresh")
	}
	hot = false
	b.Sweep(start())
	if s := b.Stats(); s.Entries != 0 || s.Bytes != 0 {
		t.Errorf("%+v", s)
	}
}
