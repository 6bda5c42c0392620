package hotparam_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

// pool is an upstream that works on four requests at once and on the others in their order. The value "full" of filter
// takes 800 ms of it, every other value 10 ms. A request that waits longer than its client leaves.
type pool struct {
	workers chan struct{}

	mu   sync.Mutex
	full time.Duration // the work on "full"
}

func (p *pool) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.workers <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	defer func() { <-p.workers }()
	took := 10 * time.Millisecond
	if r.URL.Query().Get("filter") == "full" {
		took = 800 * time.Millisecond
		p.mu.Lock()
		p.full += took
		p.mu.Unlock()
	}
	time.Sleep(took)
	w.WriteHeader(http.StatusOK)
}

// costRun is the outcome of a run of cheap and expensive requests.
type costRun struct {
	mu     sync.Mutex
	hot    []string
	hotAt  time.Duration // since the first expensive request
	took   []time.Duration
	cheap  int // sent in the steady state
	denied int // of cheap ones
	pool   *pool
}

// runExpensive asks for 100 cheap values a second, three in ten of them for one popular value, and from the eighth
// second on for the expensive value: five times a second, or with callers from as many loops.
func runExpensive(t *testing.T, yaml string, callers int) *costRun {
	t.Helper()
	const attackFrom, steadyFrom, ends = 8 * time.Second, 20 * time.Second, 40 * time.Second
	run := &costRun{pool: &pool{}}
	synctest.Test(t, func(t *testing.T) {
		run.pool.workers = make(chan struct{}, 4)
		began := time.Now()
		set, err := hotparam.ParseRules("rules.yaml", []byte(yaml))
		if err != nil {
			t.Fatal(err)
		}
		p, err := hotparam.New(hotparam.Config{Rules: set, Log: slog.New(slog.DiscardHandler),
			OnEvent: func(e hotparam.Event) {
				if run.mu.Lock(); e.Kind == hotparam.EventHot {
					if run.hot = append(run.hot, string(e.Hot.Key)); len(run.hot) == 1 {
						run.hotAt = time.Since(began) - attackFrom
					}
				}
				run.mu.Unlock()
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		running := make(chan error, 1)
		go func() { running <- p.Run(ctx) }()
		handler := p.Middleware(run.pool)
		ask := func(filter string) (status int) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/report?filter="+filter, nil)
			w := httptest.NewRecorder()
			w.Code = 0
			asked := time.Now()
			handler.ServeHTTP(w, r)
			if ctx.Err() != nil {
				w.Code = 0
			}
			run.note(filter, time.Since(asked), w.Code, asked.Sub(began) >= steadyFrom)
			return w.Code
		}
		var all sync.WaitGroup
		rnd := rand.New(rand.NewPCG(1, 1))
		open := func(from time.Duration, rate float64, value func() string) {
			time.Sleep(time.Until(began.Add(from)))
			for time.Since(began) < ends {
				filter := value()
				all.Go(func() { ask(filter) })
				run.mu.Lock()
				pause := time.Duration(rnd.ExpFloat64() / rate * float64(time.Second))
				run.mu.Unlock()
				time.Sleep(pause)
			}
		}
		all.Go(func() {
			open(0, 100, func() string {
				run.mu.Lock()
				defer run.mu.Unlock()
				if rnd.IntN(10) < 3 {
					return "popular"
				}
				return fmt.Sprint("v", rnd.IntN(50))
			})
		})
		if callers == 0 {
			all.Go(func() { open(attackFrom, 5, func() string { return "full" }) })
		}
		for range callers {
			all.Go(func() {
				time.Sleep(time.Until(began.Add(attackFrom)))
				for time.Since(began) < ends {
					if ask("full") == http.StatusTooManyRequests {
						time.Sleep(50 * time.Millisecond)
					}
				}
			})
		}
		all.Wait()
		cancel()
		if err := <-running; err != nil {
			t.Error(err)
		}
	})
	return run
}

func (c *costRun) note(filter string, took time.Duration, status int, steady bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if filter == "full" || !steady {
		return
	}
	c.cheap++
	switch status {
	case http.StatusOK:
		c.took = append(c.took, took)
	case http.StatusTooManyRequests:
		c.denied++
	}
}

func (c *costRun) String() string {
	slices.Sort(c.took)
	p99 := time.Duration(0)
	if n := len(c.took); n > 0 {
		p99 = c.took[n*99/100]
	}
	return fmt.Sprintf("cheap: %d of %d answered, %d denied, p99 %v; hot %q, first after %v; %v of work on the expensive value",
		len(c.took), c.cheap, c.denied, p99, c.hot, c.hotAt, c.pool.full)
}

// One value keeps a pool of four workers busy with five requests a second. By requests it never becomes hot; by time it
// is hot within three seconds and nothing else is, and cheap requests are answered as if it did not exist.
func TestCost_FindsExpensiveValue(t *testing.T) {
	t.Parallel()
	const byTime = `
upstreams: [{name: default, workers: 4}]
rules:
  - name: report
    match: {path: /report}
    params: [{name: filter, duplicates: last}]
    cost: time
    hot: {rate: 1s}
    limit: %s
`
	const inFlight, charged = "{algorithm: in_flight, limit: 1}", "{rate: 500ms, burst: 1s}"
	for name, c := range map[string]struct {
		callers int
		limit   string
	}{
		"five a second": {0, inFlight}, "64 callers": {64, inFlight},
		"five a second, charged": {0, charged}, "64 callers, charged": {64, charged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := runExpensive(t, fmt.Sprintf(byTime, c.limit), c.callers)
			text := run.String()
			t.Log(text)
			if len(run.hot) != 1 || run.hot[0] != "report?filter=full" || run.hotAt > 3*time.Second {
				t.Errorf("hot: %s", text)
			}
			if 1000*len(run.took) < 999*run.cheap || run.took[len(run.took)*99/100] > 60*time.Millisecond {
				t.Errorf("cheap: %s", text)
			}
		})
	}
	t.Run("by requests", func(t *testing.T) {
		t.Parallel()
		run := runExpensive(t, `
rules:
  - {name: report, match: {path: /report}, params: [filter], hot: {rate: 20}, limit: {rate: 10}}
`, 0)
		text := run.String()
		t.Log(text)
		if slices.Contains(run.hot, "report?filter=full") || 10*len(run.took) > 9*run.cheap {
			t.Errorf("the case is not one that a rule by requests misses: %s", text)
		}
	})
}
