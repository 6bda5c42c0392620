package e2e

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// resetRules refill nothing within a test.
const resetRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000}, limit: {rate: 0.001, burst: 20}}
  - {name: each, match: {path: /each}, params: [id], hot: {rate: 1000}, limit: {rate: 0.001, burst: 20, scope: instance}}
  - {name: served, match: {path: /served}, params: [id], hot: {rate: 1000}, limit: {rate: 1000}, cache: {ttl: 1h}}
ip: {sliding: {limit: 60, window: 10h, consistency: async}, fixed: {limit: 300, window: 10h}}
overrides:
  - {key: "topic?id=42", action: limit, rate: 0.001, burst: 20}
  - {key: "each?id=42", action: limit, rate: 0.001, burst: 20}
  - {key: "served?id=42", action: cache}
`

// A reset forgets the use of a key or a client, and a purge removes responses, in both limiters within a second of a
// call of one of them, of the aggregator, or of the CLI.
func TestResetAndPurge_ReachEveryLimiter(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	t.Cleanup(upstream.Close)
	redis := redistest.Start(t)
	config := write(t, "hotparam.yaml", resetRules)
	var decide, proxy, admin [3]string
	for i := range admin {
		decide[i], proxy[i], admin[i] = freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
		args := []string{"--config", config, "--redis.addr", redis.Addr(), "--admin.listen", admin[i]}
		if i < 2 {
			launch(t, "limiter-sidecar", append(args, "--sidecar.count", "none", "--gate.budget", budget,
				"--decide.listen", decide[i], "--proxy.listen", proxy[i], "--proxy.upstream", upstream.URL)...)
		} else {
			launch(t, "aggregator", append(args, "--statsd.listen", freeport.Addr(t))...)
		}
		ready(t, admin[i])
	}
	allowed := func(i int, uri, ip string) bool {
		status, body := do(t, http.MethodPost, "http://"+decide[i]+"/v1/decide",
			`{"method":"GET","uri":"`+uri+`","ip":"`+ip+`"}`, nil)
		if status != http.StatusOK && status != http.StatusTooManyRequests {
			t.Fatalf("%d: %s", status, body)
		}
		return strings.Contains(body, `"allowed":true`)
	}
	use := func(uri, ip string) { // until both refuse
		t.Helper()
		program.Await(t, time.Minute, "both limiters refuse "+uri, func() bool {
			one, other := allowed(0, uri, ip), allowed(1, uri, ip)
			return !one && !other
		})
	}
	post := func(i int, path string) func() {
		return func() {
			if status, body := do(t, http.MethodPost, "http://"+admin[i]+path, "", nil); status != http.StatusOK {
				t.Fatalf("%s: %d %s", path, status, body)
			}
		}
	}
	cli := func() {
		cmd := exec.Command(filepath.Join(program.Ours(t), "hotparam"), "hot", "reset", "--admin", "http://"+admin[2],
			"topic?id=42")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("reset: topic?id=42")) {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for i, c := range []struct {
		uri   string
		reset func()
	}{
		{"/topic?id=42", post(0, "/v1/keys/topic%3Fid=42/reset")},
		{"/topic?id=42", post(2, "/v1/keys/topic%3Fid=42/reset")},
		{"/topic?id=42", cli},
		{"/each?id=42", post(1, "/v1/keys/each%3Fid=42/reset")},
		{"/cold", post(2, "/v1/clients/198.51.100.9/reset")},
	} {
		ip := "192.0.2." + string(rune('1'+i))
		if c.uri == "/cold" {
			ip = "198.51.100.9"
		}
		use(c.uri, ip)
		c.reset()
		for i := range 2 {
			program.Await(t, time.Minute, "a limiter admits "+c.uri, func() bool { return allowed(i, c.uri, ip) })
		}
	}
	for i := range 2 {
		get(t, "http://"+proxy[i]+"/served?id=42")
		get(t, "http://"+proxy[i]+"/served?id=42")
	}
	if n := fetched.Load(); n != 2 {
		t.Fatalf("%d requests reached the upstream, want one of each limiter", n)
	}
	post(2, "/v1/keys/served%3Fid=42/purge")()
	program.Await(t, time.Minute, "both have purged", func() bool {
		for i := range 2 {
			get(t, "http://"+proxy[i]+"/served?id=42")
		}
		return fetched.Load() == 4
	})
}
