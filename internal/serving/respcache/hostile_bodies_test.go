package respcache_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// A body far beyond max_body streams on to its client, takes no memory, and no client waits for it.
func TestCache_StreamsHugeBodies(t *testing.T) { // alone: it looks at the heap
	size := int64(64 << 20)
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") == "1" {
		size = 1 << 30
	}
	chunk := make([]byte, 1<<20)
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		var most atomic.Uint64
		var under sync.WaitGroup
		hold := make(chan struct{})
		small := http.HandlerFunc(func(res http.ResponseWriter, _ *http.Request) { fmt.Fprint(res, "small") })
		w.answer(func(res http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("small") != "" {
				small(res, r)
				return
			}
			for sent := int64(0); sent < size; sent += int64(len(chunk)) {
				if _, err := res.Write(chunk); err != nil {
					return
				}
				if sent == 4<<20 {
					<-hold
				}
				if sent%(8<<20) == 0 {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					most.Store(max(most.Load(), m.HeapAlloc))
				}
			}
		})
		release := sync.OnceFunc(func() { close(hold) })
		defer release()
		for range 2 {
			under.Go(func() {
				res, err := w.begin(t.Context(), http.MethodGet, topic)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
					t.Errorf("%d bytes of %d, %v", n, size, err)
				}
			})
		}
		await(t, "both at the origin", func() bool { return w.asked.Load() == 2 })
		w.want(t, 200, "small", topic+"&small=1")
		if got := w.want(t, 200, "small", topic+"&small=1"); !got.hit() {
			t.Errorf("%v", got.header)
		}
		release()
		under.Wait()
		await(t, "the large body counted", func() bool { return w.cache.Stats().NotStored["max_body"] == 1 })
		if s := w.cache.Stats(); most.Load() > 64<<20 || s.Bytes > 1<<17 {
			t.Errorf("%d bytes on the heap, %+v", most.Load(), s)
		}
	})
}

// Who begins many long answers and ends none takes no more memory than there is.
func TestCache_BoundsMemoryOfEndlessAnswers(t *testing.T) {
	t.Parallel()
	const memory = 1 << 20
	eachWay(t, respcache.Config{Memory: memory, Timeout: time.Minute}, func(t *testing.T, w *way) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		w.answer(func(res http.ResponseWriter, r *http.Request) {
			res.Header().Set("Content-Length", "65536")
			fmt.Fprint(res, "some of it")
			flush(res)
			<-r.Context().Done()
		})
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() { w.ask(ctx, http.MethodGet, fmt.Sprint(topic, "&i=", i)) })
		}
		await(t, "all at the origin", func() bool { return w.asked.Load() == 64 })
		await(t, "memory used, and no more than there is", func() bool {
			bytes := w.cache.Stats().Bytes
			return bytes > memory*3/4 && bytes <= memory
		})
		leave()
		all.Wait()
	})
}

// Who never begins an answer is given up in time. Others wait no longer than they may, and all is
// well when the origin is.
func TestCache_GivesUpSilentHandler(t *testing.T) {
	t.Parallel()
	eachWay(t, respcache.Config{Timeout: 500 * time.Millisecond}, func(t *testing.T, w *way) {
		w.answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if got := w.ask(ctx, http.MethodGet, topic); got.status == 200 {
					t.Errorf("%+v", got)
				}
			})
		}
		await(t, "the first request is given up", func() bool { return w.cache.Stats().Failed > 0 })
		all.Wait()
		w.answer(func(res http.ResponseWriter, _ *http.Request) { fmt.Fprint(res, "well") })
		w.stepped.Store(int64(2 * time.Second))
		w.want(t, 200, "well", topic)
	})
}

// An upstream that never ends its header is a failure, and not an answer that grows in memory.
func TestCache_RejectsEndlessHeader(t *testing.T) {
	t.Parallel()
	w := open(t, respcache.Config{}, true, false)
	lines := []byte(strings.Repeat("X-Field: 0123456789abcdef0123456789abcdef\r\n", 1000))
	w.answer(func(res http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(res).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		for _, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"); err == nil; {
			_, err = conn.Write(lines)
		}
		_ = conn.Close()
	})
	for range 2 {
		if got := w.get(t, topic); got.status != http.StatusBadGateway {
			t.Errorf("%+v", got)
		}
	}
	if s := w.cache.Stats(); s.Entries > 1 || s.Bytes > 1<<20 { // a marker that nothing is kept
		t.Errorf("%+v", s)
	}
}

// A client who leaves ends nothing for others.
func TestFetch_SurvivesCanceledClient(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
			hold := make(chan struct{})
			w.answer(func(res http.ResponseWriter, r *http.Request) {
				if begun {
					fmt.Fprint(res, "half ")
					flush(res)
				}
				select {
				case <-hold:
				case <-r.Context().Done():
					panic(http.ErrAbortHandler)
				}
				fmt.Fprint(res, "whole")
			})
			ctx, leave := context.WithCancel(t.Context())
			first, second := make(chan reply, 1), make(chan reply, 1)
			go func() { first <- w.ask(ctx, http.MethodGet, topic) }()
			await(t, "the request at the origin", func() bool { return w.asked.Load() == 1 })
			go func() { second <- w.get(t, topic) }()
			leave()
			if got := <-first; got.err == nil {
				t.Errorf("%+v", got)
			}
			close(hold)
			got, want := <-second, map[bool]string{false: "whole", true: "half whole"}[begun]
			if got.err != nil || got.body != want || w.asked.Load() != 1 {
				t.Errorf("begun %v: %+v, asked %d times", begun, got, w.asked.Load())
			}
		})
	}
}

// An endless response that no client can use ends, whether its client left before it was known to be
// one, or it was fetched behind a stale answer.
func TestCache_EndsUnreadEndlessAnswers(t *testing.T) {
	t.Parallel()
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		hold := make(chan struct{})
		endless := func(res http.ResponseWriter, r *http.Request) {
			<-hold
			res.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(res, "data: 1\n\n") // errors are ignored
			flush(res)
			<-r.Context().Done()
		}
		w.answer(endless)
		ctx, leave := context.WithCancel(t.Context())
		first := make(chan reply, 1)
		go func() { first <- w.ask(ctx, http.MethodGet, topic) }()
		await(t, "the request at the origin", func() bool { return w.asked.Load() == 1 })
		leave()
		<-first
		time.AfterFunc(50*time.Millisecond, func() { close(hold) }) // whether the server has noticed by then or not
		await(t, "the end of the first stream", func() bool { return w.returned.Load() == 1 })

		w.answer(func(res http.ResponseWriter, _ *http.Request) { fmt.Fprint(res, "page") })
		w.want(t, 200, "page", topic+"&page=2")
		w.answer(endless)
		w.stepped.Store(int64(70 * time.Second)) // stale
		w.want(t, 200, "page", topic+"&page=2")
		await(t, "the end of the second stream", func() bool { return w.returned.Load() == 3 })
	})
}
