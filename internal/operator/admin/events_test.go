package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/logbound"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listener reads an event stream.
type listener struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Scanner
}

func listen(t *testing.T, url string) *listener {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("%d %s", res.StatusCode, kind)
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<20)
	return &listener{t: t, body: res.Body, in: in}
}

// next returns the next event of a name, passing over others.
func (l *listener) next(name string) []byte {
	l.t.Helper()
	for l.in.Scan() {
		if l.in.Text() != "event: "+name {
			continue
		}
		l.in.Scan()
		return bytes.TrimPrefix(l.in.Bytes(), []byte("data: "))
	}
	l.t.Fatalf("the stream ended before %s: %v", name, l.in.Err())
	return nil
}

// ended reports whether the stream ends without a further error.
func (l *listener) ended() error {
	_, err := io.Copy(io.Discard, l.body)
	return err
}

func TestEvents_SendStateAndChanges(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, func(c *Config) {
		c.Pushed = true
		c.Status = func() []Status { return []Status{{Name: "mirror", Value: "fresh", OK: true}} }
	})
	w.OpenStreams()
	w.set(func() { w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 300, t0)} })
	w.second(at(0, 0, 0, 0))
	w.second(at(time.Second, 300, 0, 0))
	srv := httptest.NewServer(w.Handler())
	defer srv.Close()
	l := listen(t, srv.URL)
	hello := l.next("hello")
	s.check(t, "Hello", hello)
	if !bytes.Contains(hello, []byte(`"sparks":{"topic?id=42":[300,300]}`)) ||
		!bytes.Contains(hello, []byte(`"allowed_per_second":300`)) {
		t.Errorf("%s", hello)
	}
	w.Publish([]detect.Change{{Hot: w.hot[0], Kind: detect.BecameHot, At: t0},
		{Hot: w.hot[0], Kind: detect.Cooled, At: t0}})
	for i, kind := range []string{`"seq":1`, `"kind":"cooled"`} {
		change := l.next("change")
		s.check(t, "Change", change)
		if !bytes.Contains(change, []byte(kind)) {
			t.Errorf("change %d: %s", i, change)
		}
	}
	w.second(at(2*time.Second, 500, 9, 0))
	s.check(t, "State", l.next("state"))
	if rec := w.ask(http.MethodPut, "/v1/overrides?confirm=true",
		`{"key": "topic?id=42", "action": "block", "author": "ann"}`); rec.Code != 201 {
		t.Fatal(rec.Body)
	}
	change := l.next("change")
	s.check(t, "Change", change)
	if !bytes.Contains(change, []byte(`"kind":"override_put","key":"topic?id=42","author":"ann"`)) {
		t.Errorf("%s", change)
	}
	list := l.next("overrides")
	s.check(t, "Overrides", list)
	if !bytes.Contains(list, []byte(`"action":"block"`)) {
		t.Errorf("%s", list)
	}
	w.CloseStreams()
	if err := l.ended(); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	if rec := w.ask(http.MethodHead, "/v1/events", ""); rec.Code != 200 || rec.Body.Len() != 0 {
		t.Errorf("HEAD: %d %s", rec.Code, rec.Body)
	}
}

// The event that a key cooled sums up its time: what was denied, and what shadow mode would have denied.
func TestEvents_SumUpDenialsOfAKey(t *testing.T) {
	t.Parallel()
	s := loadSchemas(t)
	for _, pushed := range []bool{true, false} {
		w := newWorld(t, func(c *Config) { c.Pushed = pushed })
		w.set(func() { w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 300, t0)} })
		for n := uint64(1); n <= 4; n++ { // the first report is where the counters begin
			w.second(report.Limiter{Instance: "one", At: w.now, Allowed: 300 * n,
				Keys: []report.KeyDecisions{{Key: "topic?id=42", Allowed: 200 * n, Denied: 100 * n, WouldDeny: 20 * n}}})
		}
		if pushed {
			w.Publish([]detect.Change{{Hot: w.hot[0], Kind: detect.Cooled, At: w.now}})
		}
		w.set(func() { w.hot = nil })
		w.second()
		list := w.Init(t0).Changes
		last := list[len(list)-1]
		if last.Kind != "cooled" || last.Denied != 300 || last.WouldDeny != 60 {
			t.Errorf("pushed %v: %+v", pushed, list)
		}
		text, err := json.Marshal(last)
		if err != nil {
			t.Fatal(err)
		}
		s.check(t, "Change", text)
	}
}

func TestEvents_RejectTooManyStreams(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, w := loadSchemas(t), newWorld(t, func(c *Config) {
		c.MaxStreams, c.Log = 1, logbound.Logger(slog.New(slog.NewTextHandler(&log, nil)))
	})
	w.OpenStreams()
	srv := httptest.NewServer(w.Handler())
	defer srv.Close()
	listen(t, srv.URL).next("hello")
	rec := w.ask(http.MethodGet, "/v1/events", "")
	s.answer(t, rec, 503, "Problem")
	if rec.Header().Get("Retry-After") == "" || w.Stats().Streams != 1 || w.Stats().StreamsRejected != 1 {
		t.Errorf("%v %+v", rec.Header(), w.Stats())
	}
	w.ask(http.MethodGet, "/v1/events", "")
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || strings.Contains(got, "level=ERROR") {
		t.Errorf("two streams were rejected; the log says %s", got)
	}
	w.CloseStreams()
}

// Both ways to end the streams let http.Server.Shutdown come to its end.
func TestCloseStreams_LetsShutdownEnd(t *testing.T) {
	t.Parallel()
	for _, byRun := range []bool{true, false} {
		w := newWorld(t, nil)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		w.OpenStreams() // Run opens it too, a moment later
		go func() { done <- w.Run(ctx) }()
		srv := httptest.NewServer(w.Handler())
		l := listen(t, srv.URL)
		l.next("hello")
		if byRun {
			cancel()
		} else {
			srv.Config.RegisterOnShutdown(w.CloseStreams)
		}
		if err := srv.Config.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := l.ended(); err != nil {
			t.Errorf("the stream ended with %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		srv.Close()
	}
}

// pipe is a ResponseWriter without deadlines that records its output.
type pipe struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ResponseRecorder.Write(b)
}

func TestRun_SamplesEverySecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		samples := 0
		w := newWorld(t, func(c *Config) {
			c.Now = time.Now
			c.Hot = func() []hottype.HotKey { samples++; return nil }
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 2)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		p := &pipe{ResponseRecorder: httptest.NewRecorder()}
		go func() {
			w.Handler().ServeHTTP(p, httptest.NewRequest(http.MethodGet, "http://localhost/v1/events", nil))
			done <- nil
		}()
		<-time.After(30*time.Second + 500*time.Millisecond)
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
		body := p.Body.String()
		if n := strings.Count(body, "\nevent: state\n"); n != 30 || samples != 31 {
			t.Errorf("%d states, %d samples", n, samples)
		}
		if n := strings.Count(body, ": still here\n\n"); n != 2 {
			t.Errorf("%d heartbeats", n)
		}
	})
}

// A page on demand reads the reports of all limiters while a stream is open and for 10 s after each question, and its
// first answer has them. Overrides are read once a minute, so that they are known while the store is away.
func TestRun_ReadsReportsOnlyWhileWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		w := newWorld(t, func(c *Config) {
			c.Now, c.OnDemand = time.Now, true
			read := c.Reports
			c.Reports = func(ctx context.Context) ([]report.Limiter, error) {
				reads.Add(1)
				return read(ctx)
			}
		})
		w.reports = []report.Limiter{at(0, 10, 0, 0)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		pass := func(what string, seconds int, want int64) {
			t.Helper()
			reads.Store(0)
			<-time.After(time.Duration(seconds) * time.Second)
			if got := reads.Load(); got != want {
				t.Errorf("%s: %d reads in %d s, want %d", what, got, seconds, want)
			}
		}
		<-time.After(500 * time.Millisecond)
		pass("no one looks", 100, 0)
		w.ask("GET", "/readyz", "")
		w.ask("GET", "/metrics", "")
		pass("probed and scraped", 10, 0)
		if _, err := w.store.Put(ctx, rules.Override{Key: "topic?id=42", Action: "block"}); err != nil {
			t.Error(err)
		}
		pass("an override", 60, 0)
		w.store.fail(errors.New("away"))
		if got := w.ask("GET", "/v1/overrides", "").Body.String(); !strings.Contains(got, "topic?id=42") {
			t.Errorf("overrides while the store is away: %s", got)
		}
		w.store.fail(nil)
		pass("after a question", 30, 10)
		reads.Store(0)
		if w.ask("GET", "/v1/clients", ""); reads.Load() != 1 {
			t.Errorf("%d reads before the first answer", reads.Load())
		}
		<-time.After(20 * time.Second)
		looking, leave := context.WithCancel(ctx)
		go func() {
			p := &pipe{ResponseRecorder: httptest.NewRecorder()}
			w.Handler().ServeHTTP(p, httptest.NewRequestWithContext(looking, "GET", "http://localhost/v1/events", nil))
			done <- nil
		}()
		synctest.Wait()
		pass("an open page", 100, 100)
		leave()
		<-done
		pass("the page was closed", 100, 0)
		cancel()
		<-done
	})
}
