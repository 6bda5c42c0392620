package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

var adaptiveResults = flag.String("adaptive.results", "",
	"run every way of limiting, and write what came of it into this file")

// slowUpstream answers ten requests at a time, in 50 ms each: 200 a second. The others wait in an unbounded queue, and
// it also works on requests of clients that have left.
type slowUpstream struct {
	*httptest.Server
	places  chan struct{}
	service atomic.Int64 // of one request, ns
	stalled sync.RWMutex // written while nothing is begun
}

func startSlowUpstream(t *testing.T) *slowUpstream {
	u := &slowUpstream{places: make(chan struct{}, 10)}
	u.service.Store(int64(50 * time.Millisecond))
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		u.places <- struct{}{}
		defer func() { <-u.places }()
		u.stalled.RLock()
		u.stalled.RUnlock() //nolint:staticcheck // it only waits until the stall is over
		time.Sleep(time.Duration(u.service.Load()))
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(u.Close)
	return u
}

// The seconds of a run in which something changes.
const (
	onsetAt   = 12 // the hot topic is asked for ten times as much as there is room for
	halvedAt  = 37
	wholeAt   = 62
	stallAt   = 87 // for five seconds
	runs      = 122
	coldRate  = 60
	quietRate = 20
	hotRate   = 1400
)

// arrivals are the requests that came in one second.
type arrivals struct {
	Second                         int
	Hot, Refused, Answered, Failed int
	Cold, ColdFailed               int
	P90                            float64 // of those let pass, ms
	Rate, Cap                      float64 // as the aggregator reports them, or 0 before the first report
	Why                            string
	took                           []time.Duration
	hot, refused, answered, failed atomic.Int64
	cold, coldFailed               atomic.Int64
	mu                             sync.Mutex
}

// slowSite is a slow upstream behind two limiters, and its clients.
type slowSite struct {
	t        *testing.T
	upstream *slowUpstream
	limiters [2]string
	admin    string // of the aggregator
	client   *http.Client
	seconds  []*arrivals
	asking   sync.WaitGroup
	running  atomic.Int64
}

func startSlowSite(t *testing.T, limit string) *slowSite {
	redis := redistest.Start(t)
	s := &slowSite{
		t: t, upstream: startSlowUpstream(t), admin: freeport.Addr(t), seconds: make([]*arrivals, runs),
		client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2000}},
	}
	for i := range s.seconds {
		s.seconds[i] = &arrivals{Second: i}
	}
	config, statsd := write(t, "hotparam.yaml", `
upstreams:
  - {name: default, url: "`+s.upstream.URL+`", target: {latency: 250ms}}
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 100, window: 1s, cooldown: 30s}, limit: `+limit+`}
  - {name: page, match: {path: /page}, params: [id], hot: {rate: 100000}}
`), freeport.Addr(t)
	launch(t, "aggregator", "--config", config, "--redis.addr", redis.Addr(), "--statsd.listen", statsd,
		"--admin.listen", s.admin)
	ready(t, s.admin)
	for i := range s.limiters {
		s.limiters[i] = freeport.Addr(t)
		admin := freeport.Addr(t)
		launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis.Addr(), "--statsd.addr", statsd,
			"--decide.listen", "", "--proxy.listen", s.limiters[i], "--proxy.timeout", "2s", "--admin.listen", admin,
			"--gate.budget", budget)
		ready(t, admin)
	}
	return s
}

// run plays the whole story.
func (s *slowSite) run() {
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var hot, cold float64
	now := 0
	for last := began; now < runs; {
		at := <-tick.C
		if second := int(at.Sub(began).Seconds()); second > now {
			s.see(now)
			now = second
			s.change(now)
			if now >= runs {
				break
			}
		}
		rate := float64(quietRate)
		if now >= onsetAt {
			rate = hotRate
		}
		hot, cold = hot+rate*at.Sub(last).Seconds(), cold+coldRate*at.Sub(last).Seconds()
		last = at
		for ; hot >= 1; hot-- {
			s.ask(s.seconds[now], "/topic?id=42", true)
		}
		for ; cold >= 1; cold-- {
			s.ask(s.seconds[now], fmt.Sprintf("/page?id=%d", rand.IntN(1000)), false)
		}
	}
	s.asking.Wait()
	for _, a := range s.seconds {
		a.sum()
	}
}

// change applies the changes at the beginning of a second.
func (s *slowSite) change(second int) {
	switch second {
	case halvedAt:
		s.upstream.service.Store(int64(100 * time.Millisecond))
	case wholeAt:
		s.upstream.service.Store(int64(50 * time.Millisecond))
	case stallAt:
		s.upstream.stalled.Lock()
	case stallAt + 5:
		s.upstream.stalled.Unlock()
	}
}

// see records the report of the aggregator at the end of a second.
func (s *slowSite) see(second int) {
	_, body := get(s.t, "http://"+s.admin+"/v1/upstreams")
	var said struct {
		Upstreams []struct {
			Rate float64
			Why  string
			Cap  float64 `json:"in_flight_cap"`
		}
	}
	if json.Unmarshal([]byte(body), &said) == nil && len(said.Upstreams) == 1 {
		s.seconds[second].Rate, s.seconds[second].Cap = said.Upstreams[0].Rate, said.Upstreams[0].Cap
		s.seconds[second].Why = said.Upstreams[0].Why
	}
}

// ask sends one request without waiting for it. At most 4,000 requests run at a time; the rest counts as failed.
func (s *slowSite) ask(a *arrivals, target string, hot bool) {
	if hot {
		a.hot.Add(1)
	} else {
		a.cold.Add(1)
	}
	failed := func() {
		if a.failed.Add(1); !hot {
			a.coldFailed.Add(1)
		}
	}
	if s.running.Load() > 4000 {
		failed()
		return
	}
	s.running.Add(1)
	limiter := s.limiters[rand.IntN(2)]
	s.asking.Go(func() {
		defer s.running.Add(-1)
		began := time.Now()
		res, err := s.client.Get("http://" + limiter + target)
		if err != nil {
			failed()
			return
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body) // the status is enough
		switch {
		case res.StatusCode == http.StatusTooManyRequests:
			a.refused.Add(1)
			return
		case res.StatusCode != http.StatusOK:
			failed()
		default:
			a.answered.Add(1)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.took = append(a.took, time.Since(began))
	})
}

func (a *arrivals) sum() {
	a.Hot, a.Refused, a.Answered = int(a.hot.Load()), int(a.refused.Load()), int(a.answered.Load())
	a.Failed, a.Cold, a.ColdFailed = int(a.failed.Load()), int(a.cold.Load()), int(a.coldFailed.Load())
	slices.Sort(a.took)
	if n := len(a.took); n > 0 {
		a.P90 = float64(a.took[n*9/10]) / float64(time.Millisecond)
	}
}

// phase is a part of a run in which nothing changes, without its first seconds.
type phase struct {
	name     string
	from, to int
}

func phases() []phase {
	return []phase{
		{"quiet", 5, onsetAt}, {"onset", onsetAt + 8, halvedAt}, {"halved", halvedAt + 10, wholeAt},
		{"whole again", wholeAt + 12, stallAt - 2}, {"after a stall", stallAt + 20, runs},
	}
}

// result is the outcome of a phase.
type result struct {
	Phase      string
	Within     float64 // part of the seconds with a p90 of at most 250 ms
	Answered   float64 // a second
	ColdFailed float64 // part of the cold requests
	P90        float64 // of the median second, ms
}

func (s *slowSite) judge(p phase) result {
	r := result{Phase: p.name}
	var p90 []float64
	cold, failed := 0, 0
	for _, a := range s.seconds[p.from:p.to] {
		cold, failed = cold+a.Cold, failed+a.ColdFailed
		r.Answered += float64(a.Answered) / float64(p.to-p.from)
		p90 = append(p90, a.P90)
		if a.P90 <= 250 && a.Answered > 0 {
			r.Within += 1 / float64(p.to-p.from)
		}
	}
	slices.Sort(p90)
	r.P90, r.ColdFailed = p90[len(p90)/2], float64(failed)/float64(max(cold, 1))
	return r
}

// An adaptive limit finds the capacity of a real upstream behind two limiters and Redis: at ten times that load, with
// half of the capacity removed, and after the upstream stalled. The test runs beside no other one.
func TestAdaptiveLimit_FindsCapacityAcrossLimiters(t *testing.T) {
	if os.Getenv("HOTPARAM_NIGHTLY") == "" {
		t.Skip("measures latency for two minutes, with nothing beside it: HOTPARAM_NIGHTLY=1, make nightly")
	}
	s := startSlowSite(t, "{adaptive: true, min: 5, max: 1000}")
	s.run()
	for _, a := range s.seconds {
		t.Logf(
			"%3d hot %4d refused %4d answered %3d failed %3d, %d of %d cold; p90 %4.0f ms, rate %4.0f, cap %4.1f: %s",
			a.Second, a.Hot, a.Refused, a.Answered, a.Failed, a.ColdFailed, a.Cold, a.P90, a.Rate, a.Cap, a.Why)
	}
	table := map[string][]result{}
	for _, p := range phases() {
		r := s.judge(p)
		table["adaptive"] = append(table["adaptive"], r)
		t.Logf("%+v", r)
		capacity := 200.0
		if p.name == "halved" {
			capacity = 100
		}
		switch {
		case p.name == "quiet":
			if r.ColdFailed > 0 || r.Answered < 75 {
				t.Errorf("nothing was to be limited: %+v", r)
			}
		// as the client sees it, on a busy machine
		case r.P90 > 400 || r.Answered < 0.7*capacity || r.ColdFailed > 0.02:
			t.Errorf("%s: %+v", p.name, r)
		}
	}
	if *adaptiveResults == "" {
		return
	}
	seconds := map[string][]*arrivals{"adaptive": s.seconds}
	for _, way := range []struct{ name, limit string }{
		{"fixed twice too high", "{rate: 280, burst: 28}"}, {"fixed twice too low", "{rate: 70, burst: 7}"},
		{"none", ""},
	} {
		s.client.CloseIdleConnections()
		other := startSlowSite(t, way.limit)
		other.run()
		for _, p := range phases() {
			table[way.name] = append(table[way.name], other.judge(p))
		}
		seconds[way.name], s = other.seconds, other
	}
	text, err := json.MarshalIndent(map[string]any{"phases": table, "seconds": seconds}, "", " ")
	if err == nil {
		err = os.WriteFile(*adaptiveResults, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
