package hotparam_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/shared"
)

// A key with too many requests is found and limited, and other keys are not.
func TestOneProcessFindsAndLimitsWhatIsHot(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, `
rules:
  - {name: topic, match: {path: "/topic"}, params: [id], hot: {rate: 50, window: 1s}, limit: {algorithm: fixed_window, limit: 5, window: 1h}}
`)
	stop := run(p)
	ask := func(target string) hotparam.Verdict {
		v, err := p.Decide(t.Context(), hotparam.Request{Method: "GET", Target: target})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	deadline := time.Now().Add(10 * time.Second)
	for ask("/topic?id=42").Allowed {
		if time.Now().After(deadline) {
			t.Fatal("the key is not limited")
		}
		time.Sleep(time.Millisecond) // the load: at most 1000 a second
	}
	if v := ask("/topic?id=7"); !v.Allowed {
		t.Errorf("another key: %+v", v)
	}
	p.Count(hotparam.Request{Method: "GET", Target: "/topic?id=8"})
	st := p.Stats()
	if len(st.Hot) != 1 || st.Hot[0].Key != "topic?id=42" || st.DeniedBy[hottype.ReasonHot] == 0 {
		t.Errorf("%+v", st)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	after := p.Stats()
	if after.Delivered != after.Counted || after.Counted != after.Allowed+after.Denied+1 {
		t.Errorf("counted %d, delivered %d, allowed %d, denied %d, and 1 only counted", after.Counted, after.Delivered,
			after.Allowed, after.Denied)
	}
}

// recorder is a sink that counts, fails at times, and records when it was ended.
type recorder struct {
	mu    sync.Mutex
	n     int64
	calls int
	ended int64 // n at the end of Run
}

func (r *recorder) Send(_ context.Context, counts []hotparam.Count) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls++; r.calls%3 == 0 {
		return errors.New("busy") // every third time, so that the batch is sent once more
	}
	for _, c := range counts {
		r.n += c.N
	}
	return nil
}

func (r *recorder) Run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = r.n
	return nil
}

// A sink gets every count, and ends after the last one, even if requests arrive while the pipeline stops. Time is
// virtual here.
func TestASinkIsEndedLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no Redis here") }
		rdb := redis.NewClient(&redis.Options{Addr: "192.0.2.1:6379", Dialer: away})
		defer rdb.Close()
		sink := new(recorder)
		p := newPipeline(t, hotparam.Config{Shared: shared.Config{Redis: rdb, Sink: sink}}, string(rulesYAML))
		stop := run(p)
		var closed atomic.Bool
		var visitors sync.WaitGroup
		for range 4 {
			visitors.Go(func() {
				for !closed.Load() {
					p.Count(hotparam.Request{Method: "GET", Target: "/topic?id=42"})
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		time.Sleep(2 * time.Second)
		time.AfterFunc(300*time.Millisecond, func() { closed.Store(true) }) // while Run ends
		if err := stop(); err != nil {
			t.Error(err)
		}
		visitors.Wait()
		st := p.Stats()
		if st.Counted < 900 || uint64(sink.ended) != st.Counted || st.Delivered != st.Counted || st.Dropped != 0 {
			t.Errorf("counted %d, delivered %d, dropped %d; the sink had %d at its end", st.Counted, st.Delivered,
				st.Dropped, sink.ended)
		}
		if err := rdb.Ping(t.Context()).Err(); errors.Is(err, redis.ErrClosed) {
			t.Error("the caller's client was closed")
		}
	})
}

// After Run requests are judged and counted as before, and Stats reports that the counts are not delivered.
func TestWhatComesAfterRunIsNotDelivered(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, string(rulesYAML))
	stop := run(p)
	p.Count(hotparam.Request{Method: "GET", Target: "/topic?id=1"})
	if err := stop(); err != nil {
		t.Error(err)
	}
	answer := httptest.NewRecorder()
	handler := p.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/topic?id=2", nil))
	p.Count(hotparam.Request{Method: "GET", Target: "/topic?id=3"})
	if st := p.Stats(); answer.Code != http.StatusOK || st.Allowed != 1 || st.Counted != 3 || st.Delivered != 1 ||
		st.Dropped != 0 {
		t.Errorf("answered %d; %+v, want 3 counted and 1 of them delivered", answer.Code, st)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel() // a Run that began would end at once
	if err := p.Run(ended); err == nil || !strings.Contains(err.Error(), "called before") {
		t.Errorf("a second Run: %v", err)
	}
}

func TestDecideDeniesWhatIsNoRequest(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, string(rulesYAML))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Decide(ended, hotparam.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if _, err := p.Decide(t.Context(), hotparam.Request{Cost: -1}); err == nil {
		t.Error("a negative cost is taken")
	}
	if n := p.Stats().Counted; n != 0 {
		t.Errorf("%d were counted", n)
	}
}

func TestNew_RejectsBadConfigs(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	for _, tt := range []struct {
		cfg  hotparam.Config
		want string
	}{
		{hotparam.Config{Shared: shared.Config{Redis: rdb}}, "Redis requires StatsD or Sink"},
		{hotparam.Config{Shared: shared.Config{StatsD: "127.0.0.1:8125"}}, "StatsD and Sink require Redis"},
		{hotparam.Config{Shared: shared.Config{Sink: noSink{}}}, "StatsD and Sink require Redis"},
		{hotparam.Config{Shared: shared.Config{Redis: rdb, StatsD: "127.0.0.1:8125", Sink: noSink{}}}, "both set"},
		{hotparam.Config{Shared: shared.Config{Redis: rdb, StatsD: "no address"}}, `StatsD "no address"`},
		{hotparam.Config{Shared: shared.Config{Redis: ring, Sink: noSink{}}}, "Ring"},
		{hotparam.Config{Shared: shared.Config{Redis: rdb, Sink: noSink{}}, Budget: -1}, "budget"},
		{hotparam.Config{Shared: shared.Config{Redis: rdb, Sink: noSink{}}, Instance: "one of two"}, "without spaces"},
		{hotparam.Config{Shared: shared.Config{Redis: (*redis.Client)(nil), Sink: noSink{}}}, "the client is nil"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			if _, err := hotparam.New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.HasPrefix(err.Error(), "hotparam: ") {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

func TestRulesComeFromAFileThatProgramsShare(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hotparam.yaml")
	if err := os.WriteFile(path, append([]byte("redis: {addr: [127.0.0.1:6379]}\n"), rulesYAML...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := hotparam.LoadRules(path); err != nil {
		t.Error(err)
	}
	if _, err := hotparam.LoadRules(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := hotparam.ParseRules("mine", []byte("rules:\n  - {nam: x}\n")); err == nil ||
		!strings.Contains(err.Error(), "mine:2") {
		t.Errorf("a field that is none: %v", err)
	}
}

// A limit in shadow mode denies nothing, and the denials that it would make are reported.
func TestDecide_ReportsShadowDenials(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, `
overrides: [{id: tried, key: "topic?id=42", action: limit, rate: 1/h, burst: 1, mode: shadow}]
rules: [{name: topic, match: {path: "/topic"}, params: [id], malformed: limit, hot: {rate: 50}, limit: {rate: 1/h, burst: 3, mode: shadow}}]
ip: {sliding: {limit: 2, window: 1h, mode: shadow}}
`)
	ask := func(target, client, rule string) {
		t.Helper()
		r := hotparam.Request{Method: "GET", Target: target, Client: hottype.ParseClient(client)}
		if v, err := p.Decide(t.Context(), r); err != nil || !v.Allowed || v.WouldDenyRule != rule {
			t.Errorf("%v, %v: want %q", v, err, rule)
		}
	}
	ask("/topic?id=42", "", "")
	for range 9 {
		ask("/topic?id=42", "", "tried")
	}
	long := "/topic?id=" + strings.Repeat("x", 1000) // malformed, so it is limited although it is not hot
	for _, rule := range []string{"", "", "", "topic", "topic"} {
		ask(long, "", rule)
	}
	for _, rule := range []string{"", "", "ip_sliding"} {
		ask("/elsewhere", "192.0.2.1", rule)
	}
	st, want := p.Stats(), map[string]uint64{"tried": 9, "topic": 2, "ip_sliding": 1}
	if st.WouldDeny != 12 || st.WouldDenyIP != 1 || !maps.Equal(st.WouldDenyBy, want) {
		t.Errorf("%d would have been denied, %d by a client's window, %v; want 12, 1 and %v", st.WouldDeny,
			st.WouldDenyIP, st.WouldDenyBy, want)
	}
}

// Requests without Run cause an error in the log, once. A Pipeline without requests causes no error, and neither does a
// Pipeline that runs.
func TestRunThatWasForgotten(t *testing.T) {
	for _, c := range []struct {
		name       string
		asks, runs bool
		wait       time.Duration
		errors     int
	}{
		{"forgotten", true, false, time.Minute, 1}, {"soon enough", true, false, 9 * time.Second, 0},
		{"unused", false, false, time.Minute, 0}, {"runs", true, true, time.Minute, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				p := newPipeline(t, hotparam.Config{Log: slog.New(slog.NewTextHandler(&log, nil))},
					`rules: [{name: topic, match: {path: "/topic"}, params: [id], hot: {rate: 50}, limit: {rate: 1}}]`)
				if c.runs {
					defer run(p)()
				}
				if c.asks {
					p.Count(hotparam.Request{Method: "GET", Target: "/topic?id=42"})
				}
				time.Sleep(c.wait)
				synctest.Wait()
				if n := strings.Count(log.String(), "level=ERROR"); n != c.errors {
					t.Errorf("%d errors:\n%s", n, &log)
				}
				if h := p.Stats().Health; h.Running != c.runs || c.runs != (h.HotSetAge >= 0) {
					t.Errorf("runs %v: %+v", c.runs, h)
				}
			})
		})
	}
}

// Without an aggregator counts are lost, and without Redis limits are not shared. Health reports both.
func TestHealthWithoutServers(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	lost := make(chan hotparam.Event, 1)
	p := newPipeline(t, hotparam.Config{Shared: shared.Config{Redis: rdb, StatsD: "127.0.0.1:1"},
		OnEvent: func(e hotparam.Event) {
			if e.Kind == hotparam.EventStore && !e.Ended {
				select {
				case lost <- e:
				default:
				}
			}
		}}, `
overrides: [{key: "topic?id=42", action: limit, rate: 1000}]
rules: [{name: topic, match: {path: "/topic"}, params: [id], hot: {rate: 50}, limit: {rate: 1}}]
`)
	stop := run(p)
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := p.Decide(t.Context(), hotparam.Request{Method: "GET", Target: "/topic?id=42"}); err != nil {
			t.Fatal(err)
		}
		h := p.Stats().Health
		if h.Running && h.CountsDown && h.CountsLost == -1 && h.StoreOpen && h.StoreErrors > 0 && h.HotSetAge == -1 &&
			h.Publishers == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", h)
		}
		time.Sleep(10 * time.Millisecond) // the load: at most 100 a second
	}
	<-lost
	if err := stop(); err != nil {
		t.Error(err)
	}
	if p.Stats().Health.Running {
		t.Error("it runs after Run")
	}
}

// anotherStore implements hotparam.Shared, although it is not a shared.Config.
type anotherStore struct{}

func (anotherStore) StoreName() string { return "another" }

func TestNew_RefusesOtherKindsOfShared(t *testing.T) {
	t.Parallel()
	if _, err := hotparam.New(hotparam.Config{Shared: anotherStore{}}); err == nil ||
		!strings.Contains(err.Error(), "Config.Shared is a hotparam_test.anotherStore") {
		t.Errorf("%v", err)
	}
}
