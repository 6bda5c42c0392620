package publicapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/shared"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/internal/transport/statsd"
	"github.com/hotparam/pipeline/test/internal/program"
)

// child is the variable that makes a child process a service.
const child = "HOTPARAM_FRONTDOOR_CHILD"

type childConfig struct {
	Listen, Redis, StatsD string
	// AtOnce ends the pipeline with the signal, while the server still shuts down;
	// otherwise it ends after the server.
	AtOnce bool
}

// outcome is the output of a child when it ends.
type outcome struct {
	Handled uint64 // requests that its handler saw
	hotparam.Stats
}

func TestMain(m *testing.M) {
	if text := os.Getenv(child); text != "" {
		if err := service(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const rulesYAML = `
rules:
  - {name: topic, match: {path: "/topic"}, params: [id], hot: {rate: 1000000, window: 1s}, limit: {algorithm: token_bucket, rate: 1, burst: 1}}
`

func service(text string) error {
	var cfg childConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	rules, err := hotparam.ParseRules("rules.yaml", []byte(rulesYAML))
	if err != nil {
		return err
	}
	lib := hotparam.Config{Rules: rules}
	if cfg.Redis != "" {
		rdb := redis.NewClient(&redis.Options{Addr: cfg.Redis})
		defer rdb.Close()
		lib.Shared = shared.Config{Redis: rdb, StatsD: cfg.StatsD}
	}
	p, err := hotparam.New(lib)
	if err != nil {
		return err
	}
	var handled atomic.Uint64
	server := &http.Server{Addr: cfg.Listen,
		Handler: p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handled.Add(1)
			time.Sleep(time.Millisecond) // so that some are under way when the signal comes
			fmt.Fprintln(w, r.FormValue("id"))
		}))}
	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	running, end := context.WithCancel(context.Background())
	defer end()
	context.AfterFunc(signalled, func() {
		if cfg.AtOnce {
			end()
		}
		_ = server.Shutdown(context.Background())
		end()
	})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(running) }()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if err := <-ended; err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(outcome{handled.Load(), p.Stats()})
}

// Under load, a service gets SIGTERM: every request that it counted is delivered.
func TestNothingCountedIsLostAtTheEnd(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		when := map[bool]string{false: "after the server", true: "with the server"}[atOnce]
		t.Run("in process, "+when, func(t *testing.T) {
			got := stopUnderLoad(t, childConfig{AtOnce: atOnce})
			t.Logf("handled %d, counted %d, delivered %d", got.Handled, got.Counted, got.Delivered)
		})
		t.Run("StatsD, "+when, func(t *testing.T) {
			rdb := redistest.Start(t)
			arrived, address := listen(t)
			got := stopUnderLoad(t, childConfig{Redis: rdb.Addr(), StatsD: address, AtOnce: atOnce})
			program.Await(t, time.Minute, "all datagrams", func() bool { return arrived.Load() >= got.Counted })
			t.Logf("handled %d, counted %d, delivered %d, arrived %d", got.Handled, got.Counted, got.Delivered,
				arrived.Load())
			if arrived.Load() != got.Counted {
				t.Errorf("%d arrived", arrived.Load())
			}
		})
	}
}

// listen counts the requests that arrive by StatsD.
func listen(t *testing.T) (arrived *atomic.Uint64, address string) {
	t.Helper()
	arrived = new(atomic.Uint64)
	l, err := statsd.NewListener(statsd.ListenerConfig{
		Addresses: []string{freeport.Addr(t)}, Names: canon.Names{Prefix: "hotparam", Style: canon.StyleHP1},
		Handle: func(counts []hottype.Count) {
			for _, c := range counts {
				arrived.Add(uint64(c.N))
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return arrived, l.Addr().String()
}

// stopUnderLoad starts a child, visits it from all sides, sends SIGTERM meanwhile, and
// compares its counters.
func stopUnderLoad(t *testing.T, cfg childConfig) outcome {
	t.Helper()
	cfg.Listen = freeport.Addr(t)
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"="+string(text))
	p := program.Start(t, cmd)
	visitor := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 5 * time.Second}
	visit := func(id int) bool {
		resp, err := visitor.Get(fmt.Sprintf("http://%s/topic?id=%d", cfg.Listen, id))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode == http.StatusOK
	}
	program.Await(t, time.Minute, "the service", func() bool { return visit(0) })

	answered := atomic.Uint64{}
	answered.Add(1)
	var visitors sync.WaitGroup
	for range 16 {
		visitors.Go(func() {
			for id := 0; visit(id % 100); id++ { // until the service does not answer
				answered.Add(1)
			}
		})
	}
	program.Await(t, time.Minute, "load", func() bool { return answered.Load() > 2000 })
	if code := p.Stop(); code != 0 {
		t.Fatalf("ended with %d", code)
	}
	visitors.Wait()
	var got outcome
	_, said, _ := strings.Cut(p.Said(), `{"Handled"`)
	if err := json.Unmarshal([]byte(`{"Handled"`+said), &got); err != nil {
		t.Fatal(err)
	}
	if got.Handled < answered.Load() || got.Counted != got.Handled || got.Delivered != got.Counted || got.Dropped != 0 {
		t.Errorf("answered %d, handled %d, counted %d, delivered %d, dropped %d", answered.Load(), got.Handled,
			got.Counted, got.Delivered, got.Dropped)
	}
	return got
}
