package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/middleware"
)

const topicRule = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000000, window: 5s}}
`

// sink is one case of the comparison.
type sink struct {
	what, who string
	open      func(address string) (out, error) // nil without counting
	peer      string
}

// out is a way out of counts.
type out struct {
	tally.Sink
	run  func(context.Context) error
	lost func() uint64
}

// result holds the results of one load.
type result struct {
	p50, p99, p999 time.Duration
	halfWay, end   float64 // bytes
	requests, lost uint64
}

// measure lets visitors send requests for d, and waits until the remaining counts are sent.
func (s sink) measure(d time.Duration) (result, error) {
	set, err := rules.Parse("bench.yaml", []byte(topicRule))
	if err != nil {
		return result{}, err
	}
	if s.open == nil {
		return load(gate.New(gate.Config{Rules: set}), d), nil
	}
	other, err := startPeer(s.peer)
	if err != nil {
		return result{}, err
	}
	defer other.stop()
	o, err := s.open(other.address)
	if err != nil {
		return result{}, err
	}
	count := tally.New(tally.Config{Sink: o, Log: quiet})
	stopSending, stopCounting := start(o.run), start(count.Run)
	r := load(gate.New(gate.Config{Rules: set, Counter: count}), d)
	stopCounting()
	stopSending()
	st := count.Stats()
	r.lost = st.DroppedFull + st.DroppedSink + o.lost()
	return r, nil
}

// start runs run until stop is called; stop waits for its end.
func start(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = run(ctx) }) // nil when ctx ends
	return func() { cancel(); running.Wait() }
}

// The visitors: each sends a burst of requests at once, then pauses; each request is for another topic.
const (
	visitors = 2
	burst    = 40
	topics   = 20_000
)

// load measures every request.
func load(g *gate.Gate, d time.Duration) result {
	h := middleware.New(g, middleware.Options{}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var r result
	all := make([][]time.Duration, visitors)
	before := reachable()
	for _, half := range []*float64{&r.halfWay, &r.end} {
		var wait sync.WaitGroup
		for v := range visitors {
			wait.Go(func() { all[v] = visit(h, v, time.Now().Add(d/2), all[v]) })
		}
		wait.Wait()
		*half = max(0, reachable()-before-float64(8*(cap(all[0])+cap(all[1]))))
	}
	times := slices.Concat(all...)
	slices.Sort(times)
	r.requests = uint64(len(times))
	r.p50, r.p99, r.p999 = times[len(times)/2], times[len(times)*99/100], times[len(times)*999/1000]
	return r
}

func visit(h http.Handler, visitor int, end time.Time, times []time.Duration) []time.Duration {
	w, r := blank{http.Header{}}, httptest.NewRequest(http.MethodGet, "/topic", nil)
	for n := len(times); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for range burst {
			n++
			r.RequestURI = "/topic?lang=en&id=" + strconv.Itoa((n*visitors+visitor)%topics)
			r.URL.RawQuery = r.RequestURI[len("/topic?"):]
			t := time.Now()
			h.ServeHTTP(w, r)
			times = append(times, time.Since(t))
		}
	}
	return times
}

// reachable returns the bytes of the heap without garbage.
func reachable() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// blank is a ResponseWriter that costs nothing.
type blank struct{ h http.Header }

func (b blank) Header() http.Header         { return b.h }
func (b blank) Write(p []byte) (int, error) { return len(p), nil }
func (b blank) WriteHeader(int)             {}
