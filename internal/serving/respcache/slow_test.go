package respcache_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// live is a configuration with the clock of the bubble.
var live = respcache.Config{Now: time.Now}

const ndjson = "application/x-ndjson"

// lines answers with a line a second, for a number of seconds, until its client has left. It has the length only if
// known is true.
func lines(seconds int, known bool, ended *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", ndjson)
		if known {
			w.Header().Set("Content-Length", fmt.Sprint(5*seconds))
		}
		w.WriteHeader(http.StatusOK)
		began := time.Now()
		defer func() { ended.Store(int64(time.Since(began))) }()
		for i := range seconds {
			if _, err := fmt.Fprintf(w, "%04d\n", i); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			}
		}
	}
}

// While one client reads a body that streams, others wait for it no longer than they may: then and later they are
// misses like any other, held to the limit of the key.
func TestSlowBody_ReleasesWaiters(t *testing.T) {
	t.Parallel()
	for _, tokens := range []int64{-1, 8} {
		synctest.Test(t, func(t *testing.T) {
			var ended atomic.Int64
			b := build(t, live, lines(12, false, &ended))
			b.serve.Wait, b.serve.TTL = 500*time.Millisecond, time.Minute
			b.gate.tokens.Store(tokens)
			began := time.Now()
			var all []*httptest.ResponseRecorder
			var over []<-chan struct{}
			for i := range 20 {
				w, ended, _ := b.open(t, "/topic?id=1")
				all, over = append(all, w), append(over, ended)
				synctest.Wait()
				want := int64(1) // the second request waits, for 200 ms from now on
				if i >= 2 {
					want = int64(i) + 1
				}
				if got := b.asked.Load(); tokens < 0 && got != want {
					t.Errorf("request %d, %v after the first: %d at the handler", i, time.Since(began), got)
				}
				time.Sleep(300 * time.Millisecond)
			}
			denied := 0
			for i, w := range all {
				<-over[i]
				if w.Code == http.StatusTooManyRequests {
					denied++
				} else if w.Code != http.StatusOK || w.Body.Len() != 60 {
					t.Errorf("request %d: %d, %d bytes", i, w.Code, w.Body.Len())
				}
			}
			want := 0
			if tokens > 0 {
				want = 20 - int(tokens)
			}
			if denied != want || b.gate.charged.Load() != 20 || b.Stats().TimedOut != 0 {
				t.Errorf("with %d tokens %d denied, want %d; charged %d times; %+v", tokens, denied, want,
					b.gate.charged.Load(), b.Stats())
			}
			if w := b.get("/topic?id=1"); !strings.HasPrefix(w.Header().Get("Cache-Status"), "hotparam; hit") {
				t.Errorf("the whole body was not stored: %v", w.Header())
			}
		})
	}
}

// A request whose wait ends after the header of the response goes on; others wait for the body, which comes in time.
func TestSlowHeader_ReleasesOnlyOverdueRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := build(t, live, nil)
		b.serve.Wait = 500 * time.Millisecond
		b.upstream = func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(450 * time.Millisecond)
			w.WriteHeader(http.StatusOK)
			time.Sleep(400 * time.Millisecond)
			fmt.Fprint(w, "page")
		}
		first, over1, _ := b.open(t, "/topic?id=1")
		synctest.Wait()
		early, over2, _ := b.open(t, "/topic?id=1")
		time.Sleep(400 * time.Millisecond)
		late, over3, _ := b.open(t, "/topic?id=1")
		<-over1
		<-over3
		<-over2
		if first.Body.String() != "page" || early.Body.String() != "page" || late.Body.String() != "page" ||
			b.asked.Load() != 2 || early.Header().Get("Cache-Status") != "hotparam; fwd=bypass; detail=uncacheable" ||
			!strings.HasPrefix(late.Header().Get("Cache-Status"), "hotparam; hit") {
			t.Errorf("asked %d times; %v; %v", b.asked.Load(), early.Header(), late.Header())
		}
	})
}

// Who has something stale gets it while the body streams, at once from the second request on.
func TestSlowBody_LetsOthersHaveStaleAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		b := build(t, live, numbered("Cache-Control", "max-age=1, stale-while-revalidate=0, stale-if-error=600"))
		b.serve.Wait = 500 * time.Millisecond
		b.get("/topic?id=1")
		time.Sleep(5 * time.Second)
		b.upstream = lines(12, false, &ended)
		_, over, _ := b.open(t, "/topic?id=1")
		time.Sleep(200 * time.Millisecond)
		began := time.Now()
		for i, want := range []time.Duration{300 * time.Millisecond, 0} {
			w := b.get("/topic?id=1")
			if took := time.Since(began); w.Body.String() != "answer 1" || took != want {
				t.Errorf("%d after %v: %q", i, took, w.Body)
			}
			began = time.Now()
		}
		<-over
		if b.asked.Load() != 2 {
			t.Errorf("asked %d times", b.asked.Load())
		}
	})
}

// The time-out ends the storing of a response and the waiting of other requests, and its client gets the rest. The
// buffered memory is free again.
func TestTimeout_EndsOnlyStoring(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]http.HandlerFunc{
		"a stream": lines(300, false, new(atomic.Int64)), "a download": lines(300, true, new(atomic.Int64)),
		"a long poll": func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(5 * time.Minute)
			fmt.Fprint(w, strings.Repeat("0000\n", 300))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := build(t, live, how)
			w, over, _ := b.open(t, "/topic?id=1")
			time.Sleep(time.Minute - time.Nanosecond)
			synctest.Wait()
			if n := b.Stats().Bytes; n < 300 && name != "a long poll" {
				t.Errorf("%s: %d bytes are counted before the time-out", name, n)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if s := b.Stats(); s.Bytes != b.markerBytes(t) {
				t.Errorf("%s: %d bytes are counted after the time-out, want %d", name, s.Bytes, b.markerBytes(t))
			}
			<-over
			synctest.Wait() // the counters follow the end of the response
			if w.Code != 200 || w.Body.Len() != 1500 {
				t.Errorf("%s: %d, %d bytes", name, w.Code, w.Body.Len())
			}
			if s := b.Stats(); s.NotStored["stream"] != 1 || s.Failed != 0 {
				t.Errorf("%s: %+v", name, s)
			}
		})
	}
}

// markerBytes returns the bytes of an entry of the topic that has no answer.
func (b *bundle) markerBytes(t *testing.T) int64 {
	t.Helper()
	other := build(t, live, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	other.get("/topic?id=1")
	return other.Stats().Bytes
}

// A response that no client reads ends as soon as it cannot be stored: with an unknown length when it has taken longer
// than a request may wait, with a known length at the time-out.
func TestUnreadResponses_EndUnlessStorable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		known       bool
		seconds     int
		leaves, end time.Duration
		stored      bool
	}{
		{false, 300, 100 * time.Millisecond, 500 * time.Millisecond, false},
		{false, 300, 2500 * time.Millisecond, 2500 * time.Millisecond, false},
		{false, 300, 70 * time.Second, 70 * time.Second, false},
		{true, 300, 2500 * time.Millisecond, time.Minute, false},
		{true, 300, 70 * time.Second, 70 * time.Second, false},
		{true, 12, 2500 * time.Millisecond, 12 * time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var ended atomic.Int64
			b := build(t, live, lines(c.seconds, c.known, &ended))
			b.serve.Wait = 500 * time.Millisecond
			_, over, leave := b.open(t, "/topic?id=1")
			time.Sleep(c.leaves)
			leave()
			<-over
			time.Sleep(5 * time.Minute)
			if got := time.Duration(ended.Load()); got != c.end {
				t.Errorf("%+v: ended after %v", c, got)
			}
			if s := b.Stats(); (s.NotStored["stream"] == 0) != c.stored && s.Failed == 0 {
				t.Errorf("%+v: %+v", c, s)
			}
		})
	}
}

// A handler that has not begun its response when the time-out comes ends with its last client.
func TestUnreadLongPoll_EndsAtTimeout(t *testing.T) {
	t.Parallel()
	for _, leaves := range []time.Duration{time.Second, 90 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan time.Time, 1)
			b := build(t, live, func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				ended <- time.Now()
				panic(http.ErrAbortHandler)
			})
			began := time.Now()
			_, over, leave := b.open(t, "/topic?id=1")
			time.Sleep(leaves)
			leave()
			<-over
			if got, want := (<-ended).Sub(began), max(leaves, time.Minute); got != want {
				t.Errorf("the client left after %v, the handler ended after %v", leaves, got)
			}
		})
	}
}

// Over real connections each line reaches the first client at once, and the handler ends when that has left.
func TestStreams_EndWithTheirClient(t *testing.T) {
	t.Parallel()
	for _, length := range []string{"", "1000"} {
		eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
			w.serve.Wait = time.Millisecond
			more := make(chan string)
			w.answer(func(res http.ResponseWriter, r *http.Request) {
				res.Header().Set("Content-Type", ndjson)
				if length != "" {
					res.Header().Set("Content-Length", length)
				}
				flush(res)
				for {
					select {
					case line := <-more:
						fmt.Fprint(res, line)
						flush(res)
					case <-r.Context().Done():
						return
					}
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			res, err := w.begin(ctx, http.MethodGet, topic)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for i := range 3 {
				line := fmt.Sprintln("line", i)
				more <- line
				got := make([]byte, len(line))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != line {
					t.Fatalf("%q, %v", got, err)
				}
			}
			other, err := w.begin(ctx, http.MethodGet, topic)
			if err != nil || other.StatusCode != http.StatusOK {
				t.Fatalf("another client: %+v, %v", other, err)
			}
			_ = other.Body.Close()
			await(t, "the end of the other stream", func() bool { return w.returned.Load() == 1 })
			_ = res.Body.Close()
			if length == "" {
				await(t, "the end of the stream", func() bool { return w.returned.Load() == 2 })
			}
		})
	}
}
