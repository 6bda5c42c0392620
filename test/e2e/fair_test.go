package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// readers are one client with 500 requests a second for the topic and 50 with two, in turn at two limiters. They count
// the allowed requests.
type readers struct {
	t             *testing.T
	limiters      [2]string
	asked, light  atomic.Int64 // of the 50
	heavy, failed atomic.Int64
	late          atomic.Int64 // batches that were sent too late to stand for their ten milliseconds
}

// batch sends one limiter the requests that are due in ten milliseconds.
func (r *readers) batch(i int) {
	checks := make([]string, 0, 6)
	check := func(ip string) {
		checks = append(checks, `{"method":"GET","uri":"/topic?id=42","ip":"`+ip+`"}`)
	}
	for range 5 {
		check("203.0.113.9")
	}
	check(fmt.Sprintf("10.0.%d.1", i%50))
	status, body := do(r.t, http.MethodPost, "http://"+r.limiters[i/3%2]+"/v1/decide",
		"["+strings.Join(checks, ",")+"]", nil)
	var verdicts []struct{ Allowed bool }
	if status != http.StatusOK || json.Unmarshal([]byte(body), &verdicts) != nil || len(verdicts) != 6 {
		r.failed.Add(1)
		return
	}
	for k, v := range verdicts {
		switch {
		case k < 5 && v.Allowed:
			r.heavy.Add(1)
		case k == 5 && v.Allowed:
			r.light.Add(1)
		}
	}
	r.asked.Add(1)
}

// play sends a hundred batches a second for the time d. It also sends batches that are late.
func (r *readers) play(d time.Duration) {
	var sent int
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for time.Since(began) < d {
		<-tick.C
		for ; time.Duration(sent)*10*time.Millisecond < time.Since(began); sent++ {
			if time.Since(began)-time.Duration(sent)*10*time.Millisecond > 100*time.Millisecond {
				r.late.Add(1)
			}
			r.batch(sent)
		}
	}
}

// One client at five times the limit takes next to nothing from 50 that ask for little, over two limiters and a real
// Redis; a plain bucket leaves them only the rest. The test runs beside no other one, because a busy machine sends
// bursts in place of a stream.
func TestFairLimit_SharesAcrossLimiters(t *testing.T) {
	redis := redistest.Start(t)
	for name, fair := range map[string]bool{"fair": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &readers{t: t}
			config := write(t, "hotparam.yaml", fmt.Sprintf(`
namespace: %s
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000}, limit: {rate: 100, burst: 100, fair: %t}}
overrides:
  - {key: "topic?id=42", action: limit, rate: 100, burst: 100}
`, name, fair))
			for i := range r.limiters {
				r.limiters[i] = freeport.Addr(t)
				admin := freeport.Addr(t)
				launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis.Addr(), "--sidecar.count",
					"none",
					"--decide.listen", r.limiters[i], "--admin.listen", admin, "--gate.budget", budget)
				ready(t, admin)
			}
			r.play(6 * time.Second)
			for _, n := range []*atomic.Int64{&r.asked, &r.light, &r.heavy, &r.late} {
				n.Store(0)
			}
			began := time.Now()
			r.play(12 * time.Second)
			took := time.Since(began).Seconds()
			light, use := float64(r.light.Load())/float64(r.asked.Load()),
				float64(r.light.Load()+r.heavy.Load())/(100*took)
			t.Logf(
				"light clients got %.3f of what they asked for, the limit was used to %.3f; %d batches, %d failed, %d late",
				light, use, r.asked.Load(), r.failed.Load(), r.late.Load())
			least, leastUse := 0.95, 0.97
			if r.late.Load() > r.asked.Load()/50 {
				// In bursts both are less: a client that is late leaves its part unused. The plain bucket leaves nearly
				// nothing then too.
				least, leastUse = 0.6, 0.6
			}
			switch {
			case r.failed.Load() > 0 || use > 1.05:
				t.Errorf("%d batches failed, %.3f of the limit passed", r.failed.Load(), use)
			case fair && (light < least || use < leastUse):
				t.Errorf("light clients got %.3f of what they asked for, the limit was used to %.3f", light, use)
			case !fair && light > 0.5:
				t.Errorf("light clients got %.3f from the bucket alone: there is nothing to share", light)
			}
		})
	}
}
