package adaptertest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

const outcomeRules = `
upstream: %s
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1, window: 1s}, limit: {rate: 0.001, burst: 3, refund_status: [5xx]}}
  - {name: rest, match: {path: /rest}, params: [id], hot: {rate: 1000}, limit: {adaptive: true, min: 1, max: 1000}}
ip: {in_flight: {limit: 1, lease: 1h}, trusted_proxies: [127.0.0.1]}
`

// run runs a pipeline until the test ends.
func run(t *testing.T, rules []byte) *hotparam.Pipeline {
	t.Helper()
	set, err := hotparam.ParseRules("rules.yaml", rules)
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: set, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
}

// Outcomes holds an adapter to what it has to tell of requests that went on: when they end, by which status, and how
// long the answer took. serve starts a server with the adapter before all its handlers. It answers /topic and /rest
// with what answer says of the parameter id.
func Outcomes(t *testing.T, upstream string, serve func(t *testing.T, p *hotparam.Pipeline,
	answer func(id string) (status int, text string)) (addr string)) {
	t.Helper()
	p := run(t, fmt.Appendf(nil, outcomeRules, upstream))
	begun, end := make(chan bool), make(chan bool)
	addr := serve(t, p, func(id string) (int, string) {
		if id == "slow" {
			begun <- true
			<-end
		}
		if status, err := strconv.Atoi(id); err == nil {
			return status, "as asked"
		}
		return http.StatusOK, "id=" + id
	})
	o := &outcomes{t, p, addr, 0}
	t.Run("InFlight", func(t *testing.T) {
		o.t = t
		done := make(chan bool)
		go func() { o.ask("/rest?id=slow", "192.0.2.1"); close(done) }()
		<-begun
		if status := o.ask("/rest?id=beside", "192.0.2.1").status; status != http.StatusTooManyRequests {
			t.Errorf("beside another one of the same client: %d", status)
		}
		end <- true
		<-done
		o.until("the place is free", func() bool { return o.ask("/rest?id=a", "192.0.2.1").status == http.StatusOK })
	})
	t.Run("Refund", func(t *testing.T) {
		o.t = t
		for _, id := range []string{"503", "200"} {
			o.until("it is hot", func() bool { return o.ask("/topic?id="+id, "").header.Get("RateLimit") != "" })
		}
		for range 10 {
			if status := o.ask("/topic?id=503", "").status; status != http.StatusServiceUnavailable {
				t.Errorf("an answer 503 cost something: %d", status)
			}
		}
		o.until("the limit refuses", func() bool {
			return o.ask("/topic?id=200", "").status == http.StatusTooManyRequests
		})
	})
	t.Run("Latency", func(t *testing.T) {
		o.t = t
		o.until("the upstream was judged", func() bool {
			o.ask("/rest?id=b", "")
			list := p.Stats().Upstreams
			return len(list) == 1 && list[0].Latency > 0
		})
	})
}

// outcomes asks a site.
type outcomes struct {
	t    *testing.T
	p    *hotparam.Pipeline
	addr string
	n    int // clients so far
}

// ask asks as a client; "" is one that nobody was before.
func (o *outcomes) ask(path, client string) answer {
	if client == "" {
		o.n++
		client = fmt.Sprintf("198.51.%d.%d", o.n/250, o.n%250)
	}
	return get(o.t, o.addr, path, map[string]string{"X-Forwarded-For": client})
}

func (o *outcomes) until(what string, is func() bool) {
	o.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			o.t.Fatalf("not within 30 s: %s", what)
		}
	}
}
