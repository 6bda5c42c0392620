package respcache_test

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// HEAD is answered from the stored response to GET, and GET from that to HEAD, because a HEAD fetches the whole
// response.
func TestCache_AnswersHeadFromGet(t *testing.T) {
	t.Parallel()
	for _, methods := range [][]string{{"GET", "HEAD"}, {"HEAD", "GET"}, {"HEAD", "HEAD"}} {
		eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
			w.answer(func(res http.ResponseWriter, r *http.Request) {
				res.Header().Set("Content-Type", "text/plain")
				res.Header().Set("Content-Length", "8")
				fmt.Fprint(res, "asked ", r.Method[:2])
			})
			for i, method := range methods {
				if i > 0 {
					await(t, "a stored answer", func() bool { return w.cache.Stats().Entries == 1 })
				}
				got := w.ask(t.Context(), method, topic)
				body := map[string]string{"GET": "asked GE"}[method]
				if got.err != nil || got.status != 200 || got.body != body || got.header.Get("Content-Length") != "8" ||
					got.header.Get("Content-Type") != "text/plain" || got.hit() != (i > 0) {
					t.Errorf("%v, %s: %+v", methods, method, got)
				}
			}
			if n := w.asked.Load(); n != 1 {
				t.Errorf("%v: asked %d times", methods, n)
			}
		})
	}
}

// Parts of a stored answer equal the parts that the origin sends.
func TestCache_ServesRangesLikeOrigin(t *testing.T) {
	t.Parallel()
	const page = "0123456789abcdefghij"
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		w.answer(func(res http.ResponseWriter, r *http.Request) {
			res.Header().Set("Etag", `"v1"`)
			res.Header().Set("Content-Type", "text/plain")
			http.ServeContent(res, r, "", time.Time{}, strings.NewReader(page))
		})
		var direct []string
		for _, stored := range []bool{false, true} {
			if stored {
				w.want(t, 200, page, topic)
			}
			for i, fields := range [][]string{
				{"Range", "bytes=2-5"}, {"Range", "bytes=-3"}, {"Range", "bytes=15-99"}, {"Range", "bytes=0-1,4-5,-1"},
				{"Range", "bytes=20-"}, {"Range", "bytes=5-2"}, {"Range", "lines=0-1"}, {"Range", "bytes=0-1,"},
				{"Range", "bytes=" + strings.Repeat("0-,", 500) + "0-"}, // more than the whole
				{"Range", "bytes=0-1", "If-Range", `"v1"`}, {"Range", "bytes=0-1", "If-Range", `"v0"`},
				{"Range", "bytes=0-1", "If-Range", `W/"v1"`},
				{"Range", "bytes=0-1", "If-None-Match", `"v1"`}, {"Range", "bytes=0-1", "If-Match", `"v0"`},
			} {
				got := w.get(t, topic, fields...)
				if got.err != nil {
					t.Fatal(got.err)
				}
				told := fmt.Sprintf("%d %q %q %q", got.status, got.header.Get("Content-Range"), got.header.Get("Etag"),
					parts(t, &got))
				if !stored {
					direct = append(direct, told)
				} else if told != direct[i] {
					t.Errorf("%q: %s, the origin says %s", fields, told, direct[i])
				}
				if byIfMatch := len(fields) > 2 && fields[2] == "If-Match"; got.hit() != (stored && !byIfMatch) {
					t.Errorf("%q: %v", fields, got.header)
				}
			}
		}
		if len(direct) == 0 || !strings.HasPrefix(direct[0], `206 "bytes 2-5/20"`) {
			t.Errorf("%q", direct)
		}
	})
}

// parts returns the parts of a body that a random boundary separates.
func parts(t *testing.T, r *reply) (list []string) {
	t.Helper()
	kind, params, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil || kind != "multipart/byteranges" {
		return []string{r.body}
	}
	for read := multipart.NewReader(strings.NewReader(r.body), params["boundary"]); ; {
		p, err := read.NextPart()
		if err != nil {
			return list
		}
		b, err := io.ReadAll(p)
		if err != nil {
			t.Error(err)
		}
		list = append(list, p.Header.Get("Content-Range")+string(b))
	}
}

// Trailers reach the client. A response with trailers is not stored, even if it does not announce them.
func TestCache_PassesTrailersUnstored(t *testing.T) {
	t.Parallel()
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		for _, announced := range []bool{true, false} {
			w.answer(func(res http.ResponseWriter, _ *http.Request) {
				name := http.TrailerPrefix + "X-Sum"
				if announced {
					name = "X-Sum"
					res.Header().Set("Trailer", name)
				}
				fmt.Fprint(res, "body")
				flush(res)
				res.Header().Set(name, "4")
			})
			before := w.asked.Load()
			for range 3 {
				got := w.want(t, 200, "body", fmt.Sprint(topic, "&announced=", announced))
				if got.trailer.Get("X-Sum") != "4" {
					t.Errorf("announced %v: %v", announced, got.trailer)
				}
			}
			if n := w.asked.Load() - before; n != 3 {
				t.Errorf("announced %v: asked %d times", announced, n)
			}
		}
	})
}

// Variants never mix, and there is room for some of them: the bytes are bounded, and what had to go
// is counted.
func TestCache_SeparatesAndEvictsVariants(t *testing.T) {
	t.Parallel()
	variants, memory := 1000, int64(128<<10)
	if os.Getenv("HOTPARAM_NIGHTLY") != "" {
		variants, memory = 10_000, 1<<20
	}
	eachWay(t, respcache.Config{Memory: memory}, func(t *testing.T, w *way) {
		w.answer(func(res http.ResponseWriter, r *http.Request) {
			res.Header().Set("Vary", "X-Lang")
			fmt.Fprint(res, r.Header.Get("X-Lang"), strings.Repeat("x", 200))
		})
		var all sync.WaitGroup
		for part := range 8 {
			all.Go(func() {
				for i := part; i < variants; i += 8 {
					lang := fmt.Sprint("lang-", i)
					w.want(t, 200, lang+strings.Repeat("x", 200), topic, "X-Lang", lang)
					if s := w.cache.Stats(); s.Bytes > memory+8<<11 { // the last answer of each client besides
						t.Errorf("%d bytes", s.Bytes)
					}
				}
			})
		}
		all.Wait()
		s := w.cache.Stats()
		if s.Entries == 0 || s.Evicted == 0 || s.Evicted+s.Entries > uint64(variants) || s.Bytes > memory {
			t.Errorf("%+v", s)
		}
	})
}

// No answer becomes fresh again by a clock that goes back, and nothing else waits for it.
func TestCache_SurvivesClockSteps(t *testing.T) {
	t.Parallel()
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		serial, control := 0, ""
		w.answer(func(res http.ResponseWriter, _ *http.Request) {
			if control != "" {
				res.Header().Set("Cache-Control", control)
			}
			serial++
			fmt.Fprint(res, serial)
		})
		for _, step := range []struct {
			to      time.Duration
			control string
			want    string
		}{
			{0, "", "1"}, {0, "", "1"},
			{-time.Hour, "", "2"}, {-time.Hour, "", "2"}, // was received in the future
			{0, "", "3"}, {30 * time.Second, "", "3"},
			{24 * time.Hour, "no-store", "4"}, // marked, until a second later
			{time.Minute, "", "5"}, {time.Minute, "", "5"},
			{-time.Minute, "no-store", "6"}, {-58 * time.Second, "", "7"}, {-58 * time.Second, "", "7"},
		} {
			w.stepped.Store(int64(step.to))
			control = step.control
			w.want(t, 200, step.want, topic)
		}
	})
}

// A response with far more lines and greater numbers than usual is treated as any other, and is not stored if the
// origin forbids it.
func TestCache_HandlesHostileFields(t *testing.T) {
	t.Parallel()
	eachWay(t, respcache.Config{}, func(t *testing.T, w *way) {
		for i, c := range []struct {
			name, value string
			lines       int
			asked       int64
		}{
			{"Cache-Control", `max-age=99999999999999999999, private="`, 1000, 3},
			{"Cache-Control", `max-age=99999999999999999999`, 1000, 1},
			{"Cache-Control", `x="` + strings.Repeat(`\"`, 20_000) + `, max-age=60`, 1, 1},
			{"Cache-Control", strings.Repeat(",", 50_000) + "no-store", 1, 3},
			{"Cache-Control", `a="no-store, private", max-age=60`, 1, 1},
			{"Cache-Control", `max-age=-1`, 1, 3}, {"Cache-Control", `max-age=60, max-age=0`, 1, 3},
			{"Cache-Control", "max-age=18446744073709551617", 1, 1},
			{"Vary", "Accept-Encoding,,,,,", 1000, 1}, {"Vary", "Accept-Encoding, *", 1, 3}, {"Vary", "\"x\", ;", 1, 3},
			{"Vary", strings.Repeat("accept-encoding,", 5000) + "X-User", 1, 3},
			{"Age", "99999999999999999999", 1, 1}, {"Expires", "0", 1, 3}, {"Date", "yesterday", 1, 1},
		} {
			w.answer(func(res http.ResponseWriter, _ *http.Request) {
				for range c.lines {
					res.Header().Add(c.name, c.value)
				}
				fmt.Fprint(res, i)
			})
			before := w.asked.Load()
			for range 3 {
				w.want(t, 200, fmt.Sprint(i), fmt.Sprint(topic, "&i=", i))
			}
			if n := w.asked.Load() - before; n != c.asked {
				t.Errorf("%d times %s: %.50s: asked %d times, want %d", c.lines, c.name, c.value, n, c.asked)
			}
		}
	})
}
