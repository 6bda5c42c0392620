package respcache_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/serving/respcache"
)

const topic = "/topic?id=1"

// Of many concurrent users, each identified in another way, no user gets the response of another user. Users without an
// identity share one response.
func TestCache_NeverMixesUsers(t *testing.T) {
	t.Parallel()
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		var serial atomic.Int64
		w.answer(func(res http.ResponseWriter, r *http.Request) {
			h := r.Header
			who := h.Get("Authorization") + h.Get("Cookie") + h.Get("X-User") + h.Get("X-Lang")
			switch r.URL.Query().Get("by") {
			case "X-User": // unlisted
				res.Header().Set("Vary", "x-user")
			case "X-Lang":
				res.Header().Set("Vary", "X-LANG, accept-encoding")
			case "Set-Cookie":
				who = fmt.Sprint(serial.Add(1))
				res.Header().Set("Set-Cookie", "session="+who)
			}
			fmt.Fprint(res, "for ", who)
		})
		var all sync.WaitGroup
		var sessions sync.Map
		for user := range 12 {
			all.Go(func() {
				me := fmt.Sprint("user-", user)
				for range 10 {
					for _, name := range []string{"Authorization", "Cookie", "X-User", "X-Lang"} {
						target := topic
						if name[0] == 'X' {
							target += "&by=" + name
						}
						w.want(t, 200, "for "+me, target, name, me)
					}
					w.want(t, 200, "for ", topic)
					got := w.get(t, topic+"&by=Set-Cookie")
					if _, seen := sessions.LoadOrStore(got.body, true); seen || got.header.Get("Set-Cookie") !=
						strings.Replace(got.body, "for ", "session=", 1) {
						t.Errorf("the session of %q was given away: %v", got.body, got.header)
					}
				}
			})
		}
		all.Wait()
		// 4 of 6 requests go to the origin: Authorization, Cookie, X-User, Set-Cookie.
		if n := w.asked.Load(); n < 480 || n > 480+2*12+2 {
			t.Errorf("asked %d times", n)
		}
	})
}

// Pages with status 404 or 410 are stored like others. A failure is stored only if its fields allow it explicitly, and
// no client gets it while there is a stale answer.
func TestCache_StoresExplicitlyCacheableErrors(t *testing.T) {
	t.Parallel()
	page := func(status int, control string) http.HandlerFunc {
		return func(res http.ResponseWriter, _ *http.Request) {
			if control != "" {
				res.Header().Set("Cache-Control", control)
			}
			res.WriteHeader(status)
			fmt.Fprint(res, status)
		}
	}
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		for i, c := range []struct {
			status  int
			control string
			asked   int64
		}{{404, "", 2}, {410, "", 2}, {404, "no-store", 3}, {500, "", 3}, {503, "", 3}, {500, "max-age=9", 2},
			{403, "", 3}} {
			w.answer(page(c.status, c.control))
			before := w.asked.Load()
			for range 3 {
				w.want(t, c.status, fmt.Sprint(c.status), fmt.Sprint(topic, "&page=", i))
			}
			await(t, fmt.Sprintf("%d %q: asked %d times", c.status, c.control, c.asked), func() bool {
				return w.asked.Load()-before == c.asked // a stored error is confirmed once
			})
		}
		w.answer(page(200, ""))
		w.want(t, 200, "200", topic)
		w.stepped.Store(int64(70 * time.Second)) // stale
		for _, fail := range []http.HandlerFunc{
			page(503, ""), page(500, ""), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		} {
			w.answer(fail)
			for range 3 { // behind the stale answer it is fetched again, in vain
				failed := w.cache.Stats().Failed
				w.want(t, 200, "200", topic)
				await(t, "a failed fetch", func() bool { return w.cache.Stats().Failed > failed })
				w.stepped.Add(int64(2 * time.Second))
			}
		}
		w.stepped.Store(int64(30 * time.Minute)) // only if the origin fails
		if got := w.want(t, 200, "200", topic); !got.hit() {
			t.Errorf("%v", got.header)
		}
		w.stepped.Store(int64(2 * time.Hour))
		w.answer(page(503, ""))
		w.want(t, 503, "503", topic)
	})
}

// However an answer comes, all get the same and the whole of it, and the origin is asked once.
func TestCache_ServesWholeAnswers(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("line\n", 2000)
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		for name, how := range map[string]http.HandlerFunc{
			"length": func(res http.ResponseWriter, _ *http.Request) {
				res.Header().Set("Content-Length", fmt.Sprint(len(body)))
				fmt.Fprint(res, body)
			},
			"chunked": func(res http.ResponseWriter, _ *http.Request) {
				for line := range strings.Lines(body) {
					fmt.Fprint(res, line)
				}
				flush(res)
			},
			"flushed before its first byte": func(res http.ResponseWriter, _ *http.Request) {
				flush(res)
				fmt.Fprint(res, body)
			},
			"early hints": func(res http.ResponseWriter, _ *http.Request) {
				res.Header().Set("Link", "</style.css>; rel=preload")
				res.WriteHeader(http.StatusEarlyHints)
				res.WriteHeader(http.StatusProcessing)
				fmt.Fprint(res, body)
			},
			"one buffer for all parts": func(res http.ResponseWriter, _ *http.Request) {
				buf := make([]byte, 1000)
				for at := 0; at < len(body); at += len(buf) {
					copy(buf, body[at:])
					_, _ = res.Write(buf)
				}
			},
		} {
			w.answer(how)
			before := w.asked.Load()
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { w.want(t, 200, body, topic+"&how="+strings.Fields(name)[0]) })
			}
			all.Wait()
			if n := w.asked.Load() - before; n != 1 {
				t.Errorf("%s: asked %d times", name, n)
			}
		}
		w.answer(func(http.ResponseWriter, *http.Request) {}) // no header, no body
		for range 2 {
			w.want(t, 200, "", topic)
		}
	})
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// After a handler has died in the middle of a body, no client takes the short response for a whole one, neither the
// client to whom it streamed nor the waiting ones, and nothing remains stored.
func TestCache_NeverServesShortAnswers(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("x", 5000)
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		for name, die := range map[string]http.HandlerFunc{
			"at once": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"in a chunked body": func(res http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(res, half)
				flush(res)
				panic(http.ErrAbortHandler)
			},
			"with a fault": func(res http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(res, half)
				flush(res)
				panic("a fault of the handler")
			},
			"with a length": func(res http.ResponseWriter, _ *http.Request) {
				res.Header().Set("Content-Length", "9999")
				fmt.Fprint(res, half)
				flush(res)
				panic(http.ErrAbortHandler)
			},
			"without knowing it": func(res http.ResponseWriter, _ *http.Request) {
				res.Header().Set("Content-Length", "9999")
				fmt.Fprint(res, half)
			},
			"by Goexit": func(res http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(res, half)
				flush(res)
				runtime.Goexit()
			},
			"in a body that is not kept": func(res http.ResponseWriter, _ *http.Request) {
				res.Header().Set("Cache-Control", "no-store")
				fmt.Fprint(res, half)
				flush(res)
				panic(http.ErrAbortHandler)
			},
		} {
			w.answer(die)
			target := topic + "&dies=" + strings.ReplaceAll(name, " ", "-")
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if got := w.get(t, target); got.err == nil && got.status == 200 {
						t.Errorf("%s: %d bytes passed for a whole answer", name, len(got.body))
					}
				})
			}
			all.Wait()
			w.answer(func(res http.ResponseWriter, _ *http.Request) { fmt.Fprint(res, "whole") })
			w.stepped.Add(int64(2 * time.Second))
			for range 2 {
				w.want(t, 200, "whole", target)
			}
		}
		if s := w.cache.Stats(); s.Hits != 7 {
			t.Errorf("%+v", s)
		}
	})
}
