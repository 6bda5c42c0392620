package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// expensive is an upstream with four workers. Its value "full" keeps a worker busy for 400 ms.
type expensive struct {
	workers         chan struct{}
	full, most, ran atomic.Int64 // requests for "full" at work, the most at once, and all
}

func (e *expensive) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	select {
	case e.workers <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	defer func() { <-e.workers }()
	took := 10 * time.Millisecond
	if r.URL.Query().Get("filter") == "full" {
		took = 400 * time.Millisecond
		e.ran.Add(1)
		for n, most := e.full.Add(1), e.most.Load(); n > most && !e.most.CompareAndSwap(most, n); {
			most = e.most.Load()
		}
		defer e.full.Add(-1)
	}
	time.Sleep(took)
}

// Two limiters before one upstream find the value that keeps its workers busy, and nothing else. Then no more requests
// for that value are in flight than may be, over both, and a limit by cost charges all of their work.
func TestCost_FindsExpensiveValueAcrossLimiters(t *testing.T) {
	t.Parallel()
	t.Run("in flight", func(t *testing.T) {
		t.Parallel()
		holdExpensiveValue(t, "{algorithm: in_flight, limit: 1}", 1)
	})
	t.Run("charged", func(t *testing.T) {
		t.Parallel()
		holdExpensiveValue(t, "{rate: 500ms, burst: 1s}", 2)
	})
}

// holdExpensiveValue runs an expensive value beside cheap ones under a limit that lets inFlight requests run at once.
func holdExpensiveValue(t *testing.T, limit string, inFlight int64) {
	t.Helper()
	up := &expensive{workers: make(chan struct{}, 4)}
	upstream := httptest.NewServer(up)
	t.Cleanup(upstream.Close)
	redis, statsd, admin := redistest.Start(t).Addr(), freeport.Addr(t), freeport.Addr(t)
	config := write(t, "hotparam.yaml", fmt.Sprintf(`
namespace: e2e
upstreams: [{name: default, url: %q, workers: 4}]
rules:
  - name: report
    match: {path: /report}
    params: [{name: filter, duplicates: last}]
    cost: time
    hot: {rate: 1s}
    limit: %s
`, upstream.URL, limit))
	launch(t, "aggregator", "--config", config, "--redis.addr", redis, "--statsd.listen", statsd,
		"--admin.listen", admin)
	ready(t, admin)
	var proxies [2]string
	for i := range proxies {
		proxies[i] = freeport.Addr(t)
		own := freeport.Addr(t)
		launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis, "--statsd.addr", statsd,
			"--decide.listen", "", "--proxy.listen", proxies[i], "--admin.listen", own, "--gate.budget", budget)
		ready(t, own)
	}
	var all sync.WaitGroup
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); all.Wait() })
	var denied atomic.Int64
	loop := func(i int, target func() string, told func(status int)) {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
				}
				res, err := http.Get("http://" + proxies[i%2] + target())
				if err == nil {
					res.Body.Close()
					told(res.StatusCode)
				}
			}
		})
	}
	var cheap atomic.Int64
	for i := range 4 {
		loop(i, func() string { return fmt.Sprint("/report?filter=v", cheap.Add(1)%50) }, func(int) {})
	}
	for i := range 8 {
		loop(i, func() string { return "/report?filter=full" }, func(status int) {
			if status == http.StatusTooManyRequests {
				denied.Add(1)
			}
		})
	}
	program.Await(t, time.Minute, "the expensive value to be held", func() bool { return denied.Load() > 50 })
	program.Await(t, time.Minute, "requests from before to end", func() bool { return up.full.Load() <= inFlight })
	up.most.Store(0)
	before, from := up.ran.Load(), time.Now()
	program.Await(t, 2*time.Minute, "ten more requests for it", func() bool { return up.ran.Load() >= before+10 })
	if n := up.most.Load(); n > inFlight {
		t.Errorf("%d requests for the expensive value at once, over two limiters with a limit of %d", n, inFlight)
	}
	if n, took := up.ran.Load()-before, time.Since(from); inFlight > 1 { // each is 400 ms of half a second a second
		const each = 400 * time.Millisecond
		work, most := time.Duration(n)*each, time.Second+took/2+time.Duration(inFlight)*each
		t.Logf("%v of work in %v", work, took)
		if work > most {
			t.Errorf("%v of work in %v, more than burst, rate and what is in flight: %v", work, took, most)
		}
	}
	_, hot := get(t, "http://"+admin+"/v1/hot")
	if !strings.Contains(hot, `"key":"report?filter=full"`) || !strings.Contains(hot, `"cost":"time"`) ||
		strings.Count(hot, `"key":`) != 1 {
		t.Errorf("hot: %s", hot)
	}
	_, metrics := get(t, "http://"+admin+"/metrics")
	if !strings.Contains(metrics, "\nhotparam_namespace_rule_hot_cost{") {
		t.Error("no metric has the cost")
	}
}
