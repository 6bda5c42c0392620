package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// Of two aggregators one notifies, and when it is killed the other one does: nothing is sent twice, and no event is
// lost that happens after the other one has taken over. It also notifies that Redis is away, and back. A key that was
// hot by the killed aggregator stays hot for redis.hot_ttl_no_input.
func TestNotify_MovesToOtherAggregator(t *testing.T) {
	t.Parallel()
	redis, hook := redistest.Start(t), newTold(t)
	config := write(t, "hotparam.yaml", pipelineRules+fmt.Sprintf(
		"notifications:\n  webhooks:\n    - {name: ops, url: %s, secret: %s}\n", hook.URL, webhookSecret))
	names := []string{"a", "b"} // a tells while it lives
	var aggregators []*program.Process
	var admins []string
	var loads []*load
	for _, id := range names {
		statsd, admin := freeport.Addr(t), freeport.Addr(t)
		aggregators = append(aggregators, launch(t, "aggregator", "--config", config, "--redis.addr", redis.Addr(),
			"--aggregator.id", id, "--statsd.listen", statsd, "--admin.listen", admin, "--state.dir", t.TempDir()))
		ready(t, admin)
		admins, loads = append(admins, admin), append(loads, startLoad(t, statsd))
	}
	asked := func(id int, is bool) {
		for _, l := range loads {
			l.ids[id].Store(is)
		}
	}
	await := func(event string) {
		t.Helper()
		program.Await(t, time.Minute, event, func() bool { return hook.has(event) })
	}
	asked(0, true)
	await("hot " + topic(0))
	program.Await(t, time.Minute, "b to leave it to a", func() bool {
		left := metric(t, admins[1], "hotparam_notify_not_leading_total")
		return left != "" && left != "0"
	})
	aggregators[0].Signal(os.Kill)
	n := 0
	program.Await(t, time.Minute, "b to notify", func() bool { // neither may notify the overrides set meanwhile
		n++
		do(
			t,
			http.MethodPut,
			"http://"+admins[1]+"/v1/overrides?confirm=true",
			fmt.Sprintf(`{"key":"topic?id=9%d","action":"block"}`, n),
			http.Header{"Content-Type": {"application/json"}},
		)
		<-time.After(200 * time.Millisecond)
		return strings.Contains(strings.Join(hook.all(), "\n"), "override topic?id=9")
	})
	asked(1, true)
	await("hot " + topic(1))
	redis.Stop()
	await("store_failure")
	redis.Restart()
	await("store_failure ended")
	asked(2, true)
	await("hot " + topic(2))
	asked(1, false)
	await("cold " + topic(1))
	for _, event := range []string{"hot " + topic(0), "hot " + topic(1), "cold " + topic(1),
		"hot " + topic(2), "store_failure", "store_failure ended"} {
		if hook.times(event) != 1 {
			t.Errorf("%s was told %d times", event, hook.times(event))
		}
	}
	hook.mu.Lock()
	defer hook.mu.Unlock()
	for id, n := range hook.ids {
		if n != 1 || hook.wrong != "" {
			t.Errorf("%s was told %d times; %s", id, n, hook.wrong)
		}
	}
}

// all returns the events so far.
func (w *told) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.events...)
}

// An upstream is slow by itself: its limit falls to the minimum, and both the fall and the rise are notified. The
// messages of hotparam notify test are signed like all others.
func TestNotify_ReportsAdaptiveFloor(t *testing.T) {
	t.Parallel()
	var slow atomic.Int64
	slow.Store(int64(150 * time.Millisecond))
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		<-time.After(time.Duration(slow.Load()))
	}))
	t.Cleanup(upstream.Close)
	hook := newTold(t)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	config := write(t, "hotparam.yaml", fmt.Sprintf(`
upstreams:
  - {name: default, url: "%s", target: {latency: 30ms}}
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 20, window: 1s, cooldown: 30s},
     limit: {adaptive: true, min: 20, max: 400}}
notifications:
  webhooks:
    - {name: ops, url: "%s", secret: %s}
`, upstream.URL, hook.URL, webhookSecret))
	launch(t, "hotparam", "serve", "--config", config, "--listen", addr, "--admin.listen", admin,
		"--state.dir", t.TempDir())
	ready(t, admin)
	var readers sync.WaitGroup
	var over atomic.Bool
	for range 20 {
		readers.Go(func() {
			for !over.Load() {
				get(t, "http://"+addr+"/topic?id=1")
				<-time.After(50 * time.Millisecond)
			}
		})
	}
	defer readers.Wait()
	defer over.Store(true)
	program.Await(t, 90*time.Second, "the floor", func() bool { return hook.has("adaptive_floor") })
	slow.Store(0)
	program.Await(t, 90*time.Second, "its end", func() bool { return hook.has("adaptive_floor ended") })
	p := launch(t, "hotparam", "notify", "test", "--admin", "http://"+admin, "ops")
	if code := p.Wait(30 * time.Second); code != 0 || !strings.Contains(p.Said(), "ok") || hook.wrong != "" {
		t.Errorf("exit code %d: %s %s", code, p.Said(), hook.wrong)
	}
	if !hook.has("test") && !strings.Contains(strings.Join(hook.all(), "\n"), "\ntest ") {
		t.Errorf("%q", hook.all())
	}
}
