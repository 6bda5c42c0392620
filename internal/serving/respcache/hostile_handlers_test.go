package respcache_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// A handler that uses its header, its buffer and its ResponseWriter after it has returned changes no stored answer, and
// takes no memory.
func TestFetch_IgnoresReturnedHandler(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		w := open(t, respcache.Config{}, false, h2)
		kept := make(chan http.ResponseWriter, 1)
		buf, lang := []byte("page"), []string{"de"}
		w.answer(func(res http.ResponseWriter, _ *http.Request) {
			res.Header()["X-Language"] = lang
			res.Header().Set("X-Page", "1")
			_, _ = res.Write(buf)
			kept <- res
		})
		w.want(t, 200, "page", topic)
		await(t, "a stored answer", func() bool { return w.cache.Stats().Entries == 1 })
		before := w.cache.Stats()
		res := <-kept
		copy(buf, "evil")
		lang[0] = "evil"
		res.Header()["X-Page"][0] = "evil"
		res.Header().Set("Set-Cookie", "session=evil")
		res.Header().Set("Cache-Status", "evil")
		res.WriteHeader(http.StatusTeapot)
		for range 100 {
			if n, err := res.Write(buf); n > 0 || err == nil {
				t.Errorf("wrote %d bytes, %v", n, err)
			}
		}
		flush(res)
		if s := w.cache.Stats(); s.Bytes != before.Bytes {
			t.Errorf("%d bytes, %d before", s.Bytes, before.Bytes)
		}
		got := w.want(t, 200, "page", topic)
		if h := got.header; h.Get("X-Language") != "de" || h.Get("X-Page") != "1" || h.Get("Set-Cookie") != "" ||
			!got.hit() {
			t.Errorf("%v", h)
		}
	}
}

// A Content-Length that is invalid, or less than the written bytes, has the same effect as without a cache.
func TestCache_HandlesFalseContentLength(t *testing.T) {
	t.Parallel()
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		for i, length := range []string{"-4", "four", "", "99999999999999999999", "4"} {
			if length == "4" && w.proxied {
				break // the server of the upstream goes between
			}
			w.answer(func(res http.ResponseWriter, _ *http.Request) {
				res.Header().Set("Content-Length", length)
				fmt.Fprint(res, "page")
				if length == "4" {
					if _, err := fmt.Fprint(res, "more"); err == nil {
						t.Error("more than the length was written")
					}
				}
			})
			for range 3 {
				w.want(t, 200, "page", fmt.Sprint(topic, "&i=", i))
			}
		}
	})
}

// A handler that wants the connection gets an error from the cache, and no client waits for ever.
func TestFetch_RefusesHijack(t *testing.T) {
	t.Parallel()
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		w.answer(func(res http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(res).Hijack()
			if err != nil {
				http.Error(res, "no connection", http.StatusInternalServerError)
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf")
			_ = conn.Close()
		})
		for range 3 {
			if got := w.get(t, topic); got.status == 200 && got.err == nil {
				t.Errorf("%+v", got)
			}
		}
		w.answer(func(res http.ResponseWriter, _ *http.Request) { fmt.Fprint(res, "page") })
		w.stepped.Store(int64(2 * time.Second))
		w.want(t, 200, "page", topic)
	})
}

// A response that was requested before a change is not stored after it, and handlers of changes can flush.
func TestInvalidation_DiscardsRunningFetch(t *testing.T) {
	t.Parallel()
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		var changed atomic.Bool
		hold := make(chan struct{})
		w.answer(func(res http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				changed.Store(true)
				res.(http.Flusher).Flush()
			case changed.Load():
				fmt.Fprint(res, "new")
			default:
				<-hold
				fmt.Fprint(res, "old")
			}
		})
		first := make(chan reply, 1)
		go func() { first <- w.get(t, topic) }()
		await(t, "the request at the origin", func() bool { return w.asked.Load() == 1 })
		if got := w.ask(t.Context(), http.MethodPost, topic); got.status != 200 {
			t.Errorf("%+v", got)
		}
		close(hold)
		if got := <-first; got.err != nil || got.body != "old" {
			t.Errorf("%+v", got)
		}
		for range 2 {
			w.want(t, 200, "new", topic)
		}
		if s := w.cache.Stats(); s.Hits != 1 {
			t.Errorf("%+v", s)
		}
	})
}
