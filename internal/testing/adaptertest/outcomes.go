package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

const outcomeRules = `
parse_as: %s
rules:
  - {name: topic, match: {path: %q}, params: [id], hot: {rate: 1, window: 1s}, limit: {rate: 0.001, burst: 3, refund_status: [5xx]}}
  - {name: rest, match: {path: %q}, params: [id], hot: {rate: 1000}, limit: {adaptive: true, min: 1, max: 1000}}
ip: {in_flight: {limit: 1, lease: 1h}, trusted_proxies: [127.0.0.1]}
`

// Pipeline runs a pipeline with rules in YAML until the test ends.
func Pipeline(t *testing.T, rules []byte) *hotparam.Pipeline {
	t.Helper()
	p := newPipeline(t, rules)
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

// Outcomes checks the facts that an adapter has to report of allowed requests: the time at which they end, their
// status, and the duration of the response. serve starts a server with the adapter before all its handlers. The server
// answers /topic and /rest with the result of answer for the parameter id.
func Outcomes(t *testing.T, framework string, serve func(t *testing.T, p *hotparam.Pipeline,
	answer func(id string) (status int, text string)) (addr string)) {
	t.Helper()
	OutcomesBy(t, framework, "/topic", "/rest", func(t *testing.T, p *hotparam.Pipeline,
		answer func(id string) (status int, text string)) Ask {
		addr := serve(t, p, answer)
		return func(t *testing.T, path, id, client string) int {
			return get(t, addr, path+"?id="+id, map[string]string{"X-Forwarded-For": client}).status
		}
	})
}

// Ask requests an id from a server, by a path, as a client. It returns the HTTP status that the response has or means.
type Ask func(t *testing.T, path, id, client string) (status int)

// OutcomesBy is Outcomes for protocols that are not HTTP. topic and rest are the paths that the rules see. serve
// returns the function that asks its server.
func OutcomesBy(t *testing.T, framework, topic, rest string, serve func(t *testing.T, p *hotparam.Pipeline,
	answer func(id string) (status int, text string)) Ask) {
	t.Helper()
	p := Pipeline(t, fmt.Appendf(nil, outcomeRules, framework, topic, rest))
	begun, end := make(chan bool), make(chan bool)
	o := &outcomes{t: t}
	o.site = serve(t, p, func(id string) (int, string) {
		if id == "slow" {
			begun <- true
			<-end
		}
		if status, err := strconv.Atoi(id); err == nil {
			return status, "as asked"
		}
		return http.StatusOK, "id=" + id
	})
	t.Run("InFlight", func(t *testing.T) {
		o.t = t
		done := make(chan bool)
		go func() { o.site(t, rest, "slow", "192.0.2.1"); close(done) }()
		<-begun
		if status := o.site(t, rest, "beside", "192.0.2.1"); status != http.StatusTooManyRequests {
			t.Errorf("beside another one of the same client: %d", status)
		}
		end <- true
		<-done
		o.until("the place is free", func() bool { return o.site(t, rest, "a", "192.0.2.1") == http.StatusOK })
	})
	t.Run("Refund", func(t *testing.T) {
		o.t = t
		for _, id := range []string{"503", "200"} {
			o.until("it is hot", func() bool {
				o.ask(topic, id)
				return slices.ContainsFunc(p.Stats().Hot, func(h hotparam.HotKey) bool {
					return strings.HasSuffix(string(h.Key), "id="+id)
				})
			})
		}
		for range 10 {
			if status := o.ask(topic, "503"); status != http.StatusServiceUnavailable {
				t.Errorf("an answer 503 cost something: %d", status)
			}
		}
		o.until("the limit denies", func() bool { return o.ask(topic, "200") == http.StatusTooManyRequests })
	})
	t.Run("Latency", func(t *testing.T) {
		o.t = t
		o.until("the upstream was judged", func() bool {
			o.ask(rest, "b")
			list := p.Stats().Upstreams
			return len(list) == 1 && list[0].LatencySeconds > 0
		})
	})
}

// outcomes sends requests to a site.
type outcomes struct {
	t    *testing.T
	site Ask
	n    int // number of clients so far
}

// ask sends a request as a new client.
func (o *outcomes) ask(path, id string) (status int) {
	o.n++
	return o.site(o.t, path, id, fmt.Sprintf("198.51.%d.%d", o.n/250, o.n%250))
}

func (o *outcomes) until(what string, is func() bool) {
	o.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			o.t.Fatalf("not within 30 s: %s", what)
		}
	}
}
