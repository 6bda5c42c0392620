package gateways

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// endRules make a value of a parameter hot that takes two seconds of each second, and let one request for it be in
// flight. A client that waits for its responses takes one second of each second at most, however slow the machine is.
const endRules = `
upstreams: [{name: default, workers: 50}]
rules:
  - name: report
    match: {path: /report}
    params: [{name: filter, duplicates: last}]
    cost: time
    hot: {rate: 2s}
    limit: {algorithm: in_flight, limit: 1}
  - name: topic
    match: {path: /topic}
    params: [id]
    hot: {rate: 1000}
overrides: [{key: 'topic?id=blocked', action: block}]
`

// reporting returns the gateways that report the ends of requests, and how each is started by the rules of a file.
func reporting() map[string]func(t *testing.T, p places, config string) *exec.Cmd {
	all := map[string]func(t *testing.T, p places, config string) *exec.Cmd{}
	all["Envoy, rate limit service"] = func(t *testing.T, p places, _ string) *exec.Cmd {
		return kinds["Envoy, rate limit service"].command(t, p)
	}
	for name, d := range map[string]deciding{"nginx that decides itself": decidingNginx,
		"HAProxy that decides itself": decidingHAProxy, "the plugin for Kong": decidingPlugin("Kong"),
		"the plugin for APISIX": decidingPlugin("APISIX")} {
		var replace []string
		if name == "nginx that decides itself" {
			replace = []string{"# proxy_ignore_client_abort on;", "proxy_ignore_client_abort on;"}
		}
		all[name] = func(t *testing.T, p places, config string) *exec.Cmd { return d.byFile(t, p, config, replace...) }
	}
	return all
}

// slowApp answers requests for the filter full after 300 ms, and others at once.
type slowApp struct {
	*httptest.Server
	full, most, ran atomic.Int64
}

func startSlowApp(t *testing.T) *slowApp {
	a := &slowApp{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("filter") != "full" {
			return
		}
		n := a.full.Add(1)
		defer a.full.Add(-1)
		for most := a.most.Load(); n > most && !a.most.CompareAndSwap(most, n); {
			most = a.most.Load()
		}
		a.ran.Add(1)
		time.Sleep(300 * time.Millisecond)
	}))
	t.Cleanup(a.Close)
	return a
}

// A gateway that reports costs lets the limiter find the value that takes the time of the upstream, and one that
// reports the ends of requests lets it bound the requests in flight. A value that is asked for as often and costs
// nothing stays cold.
func TestGateways_ReportEndsOfRequests(t *testing.T) {
	t.Parallel()
	all := withPlugins()
	for name, start := range reporting() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startSlowApp(t)
			limiter, feed, admin := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
			file := t.TempDir() + "/hotparam.yaml"
			if err := os.WriteFile(file, []byte(endRules), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"serve", "--config", file, "--admin.listen", admin}
			for _, arg := range all[name].limiter {
				args = append(args, strings.NewReplacer("{addr}", limiter, "{edge}", feed).Replace(arg))
			}
			program.Launch(t, "hotparam", args...)
			program.Await(t, time.Minute, "the limiter", func() bool {
				conn, err := net.Dial("tcp", limiter)
				if err == nil {
					_ = conn.Close()
				}
				return err == nil
			})
			p := places{strconv.Itoa(freeport.Port(t)), limiter, a.Listener.Addr().String(), true, feed}
			g := startGateway(t, start(t, p, file), "127.0.0.1:"+p.front, "/topic?id=blocked", 429)
			var all sync.WaitGroup
			stop := make(chan struct{})
			t.Cleanup(func() { close(stop); all.Wait() })
			var denied, cheap atomic.Int64
			loop := func(target string, denials *atomic.Int64) {
				all.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(20 * time.Millisecond):
						}
						res, err := http.Get("http://" + g.addr + target)
						if err != nil {
							continue
						}
						if _ = res.Body.Close(); res.StatusCode == http.StatusTooManyRequests {
							denials.Add(1)
						}
					}
				})
			}
			for range 8 {
				loop("/report?filter=full", &denied)
			}
			loop("/report?filter=cheap", &cheap)
			program.Await(t, time.Minute, "the expensive value to be hot", func() bool {
				return strings.Contains(hotKeys(t, admin), `"key":"report?filter=full"`)
			})
			if strings.HasPrefix(name, "HAProxy") { // it reports no ends
				if hot := hotKeys(t, admin); strings.Count(hot, `"key":`) != 1 {
					t.Errorf("hot: %s", hot)
				}
				return
			}
			program.Await(t, time.Minute, "the expensive value to be held", func() bool { return denied.Load() > 20 })
			program.Await(t, time.Minute, "requests from before to end", func() bool { return a.full.Load() <= 1 })
			a.most.Store(0)
			before := a.ran.Load()
			program.Await(t, time.Minute, "more requests for it", func() bool { return a.ran.Load() >= before+5 })
			if n := a.most.Load(); n > 1 {
				t.Errorf("%d requests for the expensive value were in flight", n)
			}
			leaveEarly(g.addr, "/report?filter=full")
			before = a.ran.Load()
			program.Await(t, time.Minute, "requests after clients that left", func() bool {
				return a.ran.Load() >= before+5
			})
			// Envoy ends the request of a client that leaves, and an application may work on.
			if n := a.most.Load(); n > 1 && !strings.HasPrefix(name, "Envoy") {
				t.Errorf("%d requests for the expensive value were in flight, after clients that left", n)
			}
			if n := cheap.Load(); n > 0 {
				t.Errorf("%d requests for the cheap value were denied", n)
			}
			hot := hotKeys(t, admin)
			if strings.Count(hot, `"key":`) != 1 || !strings.Contains(hot, `"key":"report?filter=full"`) {
				t.Errorf("hot: %s", hot)
			}
		})
	}
}

// leaveEarly sends requests, one after the other, whose clients leave before the response, some of them at once.
func leaveEarly(addr, target string) {
	for i := range 30 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			continue
		}
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target)
		time.Sleep(time.Duration(i%3) * 10 * time.Millisecond)
		_ = conn.Close()
	}
}

// hotKeys returns the response of the admin listener about hot keys.
func hotKeys(t *testing.T, admin string) string {
	t.Helper()
	res, err := http.Get("http://" + admin + "/v1/hot")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
