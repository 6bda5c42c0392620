// Command expensive shows hot keys by cost: a service with four workers gets 100 cheap requests a second, and one value
// takes 800 ms of a worker. It runs without rules, with a rule by requests and with a rule by time, over HTTP on
// loopback, and prints the answers to the cheap requests. With -postgres the service has a table of two million rows in
// PostgreSQL, a pool of four connections, and one filter without an index.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

const (
	workers   = 4
	cheap     = 100 // requests a second
	patience  = 2 * time.Second
	attackAt  = 5 * time.Second
	steadyAt  = 15 * time.Second
	byRequest = `
rules:
  - name: report
    match: {path: /report}
    params: [{name: filter, duplicates: last}]
    hot: {rate: 20}
    limit: {rate: 10}
`
	byTime = `
upstreams: [{name: default, workers: 4}]
rules:
  - name: report
    match: {path: /report}
    params: [{name: filter, duplicates: last}]
    cost: time
    hot: {rate: 1s}
    limit: {algorithm: in_flight, limit: 1}
`
)

func main() {
	seconds := flag.Int("seconds", 35, "length of each run")
	callers := flag.Int("callers", 0, "loops that ask for the expensive value, in place of five requests a second")
	url := flag.String("postgres", "", "connection `URL` of a database, in which the table of reports is made")
	flag.Parse()
	if err := run(time.Duration(*seconds)*time.Second, *callers, *url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(length time.Duration, callers int, url string) error {
	service, cheapTook, fullTook := newPool(), 10*time.Millisecond, 800*time.Millisecond
	if url != "" {
		db, err := openDatabase(context.Background(), url)
		if err != nil {
			return fmt.Errorf("expensive: %w", err)
		}
		defer db.pool.Close()
		if cheapTook, fullTook, err = db.alone(context.Background()); err != nil {
			return fmt.Errorf("expensive: %w", err)
		}
		service = db
	}
	fmt.Printf("%d workers, %d cheap requests a second of %v, three in ten for one popular value;\n"+
		"from second %.0f on one value of %v, steady from second %.0f on\n\n", workers, cheap,
		cheapTook.Round(10*time.Microsecond), attackAt.Seconds(), fullTook.Round(time.Millisecond), steadyAt.Seconds())
	fmt.Printf("| rules | cheap answered | denied | p50 | p99 | hot |\n|---|---|---|---|---|---|\n")
	for _, c := range []struct{ name, rules string }{{"none", ""}, {"by requests", byRequest}, {"by time", byTime}} {
		s := &site{began: time.Now(), length: length, callers: callers, service: service}
		if err := s.run(c.rules); err != nil {
			return fmt.Errorf("expensive: %s: %w", c.name, err)
		}
		fmt.Printf("| %s | %s |\n", c.name, s)
	}
	return nil
}

// site is one run.
type site struct {
	began   time.Time
	length  time.Duration
	callers int
	service http.Handler
	url     string
	client  *http.Client
	hot     sync.Map // key: time since the attack began

	mu           sync.Mutex
	took         []time.Duration // of cheap requests that were answered in the steady state
	sent, denied int
}

func (s *site) run(rules string) error {
	handler := s.service
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rules != "" {
		set, err := hotparam.ParseRules("rules.yaml", []byte(rules))
		if err != nil {
			return err
		}
		p, err := hotparam.New(hotparam.Config{Rules: set, Log: slog.New(slog.DiscardHandler), OnEvent: s.noteEvent})
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		handler = p.Middleware(handler)
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(l) }()
	s.url = "http://" + l.Addr().String() + "/report?filter="
	s.client = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 512}}
	s.ask()
	s.client.CloseIdleConnections()
	if err := server.Close(); err != nil {
		return err
	}
	if err := <-serving; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *site) noteEvent(e hotparam.Event) {
	if e.Kind == hotparam.EventHot {
		s.hot.LoadOrStore(string(e.Hot.Key), time.Since(s.began)-attackAt)
	}
}

// ask sends all requests, and returns when they have ended.
func (s *site) ask() {
	var all sync.WaitGroup
	open := func(from time.Duration, rate float64, value func() string) {
		time.Sleep(from)
		for at := time.Now(); time.Since(s.began) < s.length; {
			all.Go(func() { s.get(value()) })
			at = at.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
			time.Sleep(time.Until(at))
		}
	}
	all.Go(func() {
		open(0, cheap, func() string {
			if rand.IntN(10) < 3 {
				return "popular"
			}
			return fmt.Sprint("v", rand.IntN(50))
		})
	})
	if s.callers == 0 {
		all.Go(func() { open(attackAt, 5, func() string { return "full" }) })
	}
	for range s.callers {
		all.Go(func() {
			for time.Sleep(attackAt); time.Since(s.began) < s.length; {
				if s.get("full") == http.StatusTooManyRequests {
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
}

func (s *site) get(filter string) (status int) {
	asked := time.Now()
	res, err := s.client.Get(s.url + filter)
	if err == nil {
		status = res.StatusCode
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if filter != "full" && asked.Sub(s.began) > steadyAt {
		s.note(time.Since(asked), status)
	}
	return status
}

func (s *site) note(took time.Duration, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	switch status {
	case http.StatusOK:
		s.took = append(s.took, took)
	case http.StatusTooManyRequests:
		s.denied++
	}
}

func (s *site) String() string {
	slices.Sort(s.took)
	quantile := func(q float64) time.Duration {
		if len(s.took) == 0 {
			return 0
		}
		return s.took[int(q*float64(len(s.took)-1))].Round(time.Millisecond)
	}
	percent := func(n int) float64 { return 100 * float64(n) / float64(max(s.sent, 1)) }
	hot := ""
	s.hot.Range(func(key, at any) bool {
		hot += fmt.Sprintf("%s after %.1f s ", key, at.(time.Duration).Seconds())
		return true
	})
	return fmt.Sprintf("%.1f %% | %.1f %% | %v | %v | %s", percent(len(s.took)), percent(s.denied), quantile(0.5),
		quantile(0.99), hot)
}

// newPool returns the service: it works on a few requests at once, and on the others in their order. A request whose
// client has left while it waited is not worked on.
func newPool() http.Handler {
	pool := make(chan struct{}, workers)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case pool <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		defer func() { <-pool }()
		took := 10 * time.Millisecond
		if r.URL.Query().Get("filter") == "full" {
			took = 800 * time.Millisecond
		}
		time.Sleep(took)
		_, _ = io.WriteString(w, "report\n")
	})
}
