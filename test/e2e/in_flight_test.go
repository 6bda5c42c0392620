package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// Of fifty slow requests of one client over two limiters, never more than ten are in flight, also beyond the lease, and
// the slots of a killed limiter are free within the lease.
func TestInFlight_SurvivesKilledLimiter(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	end := make(chan bool)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for n := running.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		defer running.Add(-1)
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(upstream.Close)
	var once sync.Once
	finish := func() { once.Do(func() { close(end) }) }
	t.Cleanup(finish)

	redis := redistest.Start(t)
	config := write(t, "hotparam.yaml", `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000}}
ip: {in_flight: {limit: 10, lease: 2s}}
`)
	var limiters [2]*program.Process
	var addr [2]string
	for i := range addr {
		addr[i] = freeport.Addr(t)
		admin := freeport.Addr(t)
		limiters[i] = launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis.Addr(), "--sidecar.count",
			"none",
			"--decide.listen", freeport.Addr(t), "--proxy.listen", addr[i], "--proxy.upstream", upstream.URL,
			"--admin.listen", admin, "--gate.budget", budget)
		ready(t, admin)
	}
	slow := &http.Client{Transport: &http.Transport{}}
	var refused, others atomic.Int64
	var asking sync.WaitGroup
	ask := func(n int) {
		for i := range n {
			asking.Go(func() {
				res, err := slow.Get("http://" + addr[i%2] + "/slow")
				if err != nil {
					return // of the limiter that is killed
				}
				defer res.Body.Close()
				switch res.StatusCode {
				case http.StatusTooManyRequests:
					refused.Add(1)
				case http.StatusOK:
				default:
					others.Add(1)
				}
			})
		}
	}
	ask(10) // five through each limiter, so that the killed one holds some
	program.Await(t, time.Minute, "ten in flight", func() bool { return running.Load() == 10 })
	ask(40)
	program.Await(t, time.Minute, "forty refused", func() bool { return refused.Load() == 40 })
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := range 30 { // longer than the lease, which is renewed
		<-tick.C
		if status, _ := get(t, "http://"+addr[i%2]+"/x"); status != http.StatusTooManyRequests {
			t.Fatalf("%d00 ms later limiter %d answers %d", i, i%2, status)
		}
	}
	before := running.Load()
	killed := time.Now()
	limiters[0].Signal(os.Kill)
	program.Await(t, time.Minute, "a place of the killed limiter", func() bool {
		res, err := (&http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{}}).
			Get("http://" + addr[1] + "/slow")
		if err == nil {
			res.Body.Close()
		}
		return err != nil // it reached the upstream, which does not answer
	})
	if took := time.Since(killed); took > lease+slack {
		t.Errorf("a place was free %v after the kill, want the lease of 2s", took)
	}
	if most.Load() > 10 || before != 10 || others.Load() != 0 {
		t.Errorf("%d at once, %d before the kill, %d other answers", most.Load(), before, others.Load())
	}
	finish()
	asking.Wait()
}
