package hotparam_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/shared"
)

// newPipeline builds a pipeline that does not run.
func newPipeline(t *testing.T, cfg hotparam.Config, rules string) *hotparam.Pipeline {
	t.Helper()
	var err error
	if cfg.Rules, err = hotparam.ParseRules("rules.yaml", []byte(rules)); err != nil {
		t.Fatal(err)
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	p, err := hotparam.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs a pipeline until stop is called. stop returns the error of Run.
func run(p *hotparam.Pipeline) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// A handler behind the middleware can still flush, and take over the connection.
func TestHandlersFlushAndHijack(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, string(rulesYAML))
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/flush", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "first")
		w.(http.Flusher).Flush()
		<-release
		fmt.Fprint(w, "second")
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "taken over")
	})
	server := httptest.NewServer(p.Middleware(mux))
	defer server.Close()

	resp, err := http.Get(server.URL + "/flush")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, len("first"))
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "first" {
		t.Errorf("before the end: %q, %v", first, err)
	}
	close(release)
	if rest, err := io.ReadAll(resp.Body); string(rest) != "second" {
		t.Errorf("at the end: %q, %v", rest, err)
	}

	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /hijack HTTP/1.1\r\nHost: x\r\n\r\n")
	if got, err := io.ReadAll(bufio.NewReader(conn)); string(got) != "taken over" {
		t.Errorf("hijacked: %q, %v", got, err)
	}
}

const perClient = elsewhere + `
ip: {fixed: {limit: 2, window: 1h}}
`

// elsewhere has the rule that a rule set needs, for tests of the limits of clients.
const elsewhere = `
rules: [{name: elsewhere, match: {path: /elsewhere}, params: [], hot: {rate: 1000}}]
`

// Limits that need no detection hold before Run, during it and after it.
func TestMiddlewareWorksBeforeAndAfterRun(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, hotparam.Config{}, perClient)
	handler := p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	ask := func(client string) int {
		r := httptest.NewRequest("GET", "/topic?id=1", nil)
		r.RemoteAddr = client + ":1"
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	twice := func(when, client string) {
		t.Helper()
		for i, want := range []int{204, 204, 429} {
			if got := ask(client); got != want {
				t.Errorf("%s: request %d: %d, want %d", when, i, got, want)
			}
		}
	}
	twice("before", "192.0.2.1")
	stop := run(p)
	twice("during", "192.0.2.2")
	if err := stop(); err != nil {
		t.Error(err)
	}
	twice("after", "192.0.2.3")
	if err := p.Run(t.Context()); err == nil {
		t.Error("Run runs twice")
	}
}

// Without a reachable Redis each rule's own policy decides, within the budget, also before Run and after it.
func TestMiddleware_PoliciesWithoutRedis(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string][3]int{"open": {204, 204, 204}, "closed": {429, 429, 429},
		"local": {204, 204, 429}} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
			defer rdb.Close()
			p := newPipeline(t, hotparam.Config{Shared: shared.Config{Redis: rdb, Sink: noSink{}}}, elsewhere+`
ip: {fixed: {limit: 2, window: 1h, scope: cluster, on_store_failure: `+policy+`}}
`)
			handler := p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNoContent)
			}))
			thrice := func(when, client string) {
				t.Helper()
				for i := range 3 {
					r, w := httptest.NewRequest("GET", "/topic?id=1", nil), httptest.NewRecorder()
					r.RemoteAddr = client + ":1"
					start := time.Now()
					handler.ServeHTTP(w, r)
					if w.Code != want[i] || time.Since(start) > 5*time.Second {
						t.Errorf("%s: request %d: %d after %v, want %d", when, i, w.Code, time.Since(start), want[i])
					}
				}
			}
			thrice("before", "192.0.2.1")
			stop := run(p)
			thrice("during", "192.0.2.2")
			if err := stop(); err != nil {
				t.Error(err)
			}
			thrice("after", "192.0.2.3")
		})
	}
}

type noSink struct{}

func (noSink) Send(context.Context, []hotparam.Count) error { return nil }
