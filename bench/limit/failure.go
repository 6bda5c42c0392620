package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hotparam/pipeline/bench/internal/link"
	"github.com/hotparam/pipeline/bench/internal/redisserver"
)

// The lengths of a run with a fault: healthy before, faulty, and healthy again. A failover takes its own time.
const (
	calm   = time.Second
	faulty = 3 * time.Second
	after  = 3 * time.Second
)

// slowness is the time by which each answer of a slow store comes later.
const slowness = 100 * time.Millisecond

// fault is a way in which the state of a deployment fails.
type fault struct {
	name   string
	length time.Duration // until it is healed
	// strike makes the state fail, and end heals it.
	strike, end func(ctx context.Context, s state) error
}

// strikes reports whether a contender has what fails.
func (f *fault) strikes(c contender) bool {
	if f.name == failover {
		return c.cluster
	}
	return c.redis || c.own
}

// failover names the fault of a cluster. All others are of the one process that holds the counts.
const failover = "failing over"

func faults() []fault {
	return []fault{
		{"slow", faulty, func(_ context.Context, s state) error { s.slow(slowness); return nil },
			func(_ context.Context, s state) error { s.slow(0); return nil }},
		{"frozen", faulty, func(_ context.Context, s state) error { return s.freeze() },
			func(_ context.Context, s state) error { return s.thaw() }},
		{"gone", faulty, func(_ context.Context, s state) error { s.kill(); return nil },
			func(ctx context.Context, s state) error { return s.restart(ctx) }},
		{failover, 0, func(_ context.Context, s state) error { s.kill(); return nil },
			func(ctx context.Context, s state) error { return s.restart(ctx) }},
	}
}

// redisState is one Redis behind a link.
type redisState struct {
	server *redisserver.Server
	link   *link.Link
}

func startRedis(ctx context.Context) (*redisState, error) {
	server, err := redisserver.Start(ctx, "redis-server")
	if err != nil {
		return nil, err
	}
	l, err := link.New(ctx, server.Addr)
	if err != nil {
		server.Stop()
		return nil, err
	}
	return &redisState{server, l}, nil
}

func (s *redisState) slow(d time.Duration) { s.link.Slow(d) }
func (s *redisState) freeze() error        { return s.server.Freeze() }
func (s *redisState) thaw() error          { return s.server.Thaw() }
func (s *redisState) kill()                { s.server.Kill() }

func (s *redisState) restart(ctx context.Context) error {
	if err := s.server.Launch(ctx); err != nil {
		return err
	}
	for s.server.Ping() != nil {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (s *redisState) stop() {
	s.link.Close()
	s.server.Stop()
}

// masterState is the master of a cluster that holds the hot key. It is only killed, and its replica takes its place.
type masterState struct {
	redisState
	nodes  *redisserver.Cluster
	holder int
}

func (s *masterState) restart(ctx context.Context) error { return s.nodes.Replaced(ctx, s.holder) }

// outcome is the result of a contender with a fault.
type outcome struct {
	Contender string  `json:"contender"`
	Fault     string  `json:"fault"`
	Seconds   float64 `json:"seconds"` // of the fault
	// Healthy50 and Healthy99 are quantiles of the time to the answer for the hot key before the fault, in ms. P50, P99
	// and Max are of the requests for it that were asked during the fault, errors included.
	Healthy50 float64 `json:"healthy_p50_ms"`
	Healthy99 float64 `json:"healthy_p99_ms"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	// Undecided and PagesUndecided are the parts of the requests of the fault, for the hot key and for pages, that got
	// no decision.
	Undecided      float64 `json:"undecided"`
	PagesUndecided float64 `json:"pages_undecided"`
	// Hot and HotAfter are the numbers of requests for the hot key that were admitted during the fault and after it,
	// and Rate and RateAfter the numbers that the rate alone admits in these times.
	Hot       int     `json:"hot_admitted"`
	Rate      float64 `json:"hot_by_rate"`
	HotAfter  int     `json:"hot_admitted_after"`
	RateAfter float64 `json:"hot_by_rate_after"`
	// Recovery is the time after the fault until all got a decision within 250 ms again, in ms; Settled is false if
	// that had not happened at the end.
	Recovery float64 `json:"recovery_ms"`
	Settled  bool    `json:"settled"`
	Late99   float64 `json:"late_p99_ms"` // by which requests were sent late
	First    string  `json:"first_error,omitempty"`
}

// endure runs a contender with a fault.
func endure(ctx context.Context, c contender, f fault, root string) (*outcome, error) {
	dir, err := os.MkdirTemp(root, "run-")
	if err != nil {
		return nil, err
	}
	d, s, stop, err := deploy(ctx, c, f.name == failover, dir)
	if err != nil {
		return nil, fmt.Errorf("limit: %s: %w", c.name, err)
	}
	defer stop()
	var healed time.Duration
	running := make(chan error, 1)
	struck := func(began time.Time) {
		running <- func() error {
			if err := pause(ctx, time.Until(began.Add(calm))); err != nil {
				return err
			}
			if err := f.strike(ctx, s); err != nil {
				return err
			}
			if err := pause(ctx, time.Until(began.Add(calm+f.length))); err != nil {
				return err
			}
			err := f.end(ctx, s)
			healed = time.Since(began)
			return err
		}()
	}
	events := play(ctx, d.doors, failureTraffic(calm+faulty+after), struck)
	if err := <-running; err != nil {
		return nil, fmt.Errorf("limit: %s, %s: %w", c.name, f.name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return sumUp(c.name, f.name, events, healed), nil
}

// deploy starts a contender, with a Redis of its own if it needs one, or a cluster, and makes the connections. It
// returns the part that can fail.
func deploy(ctx context.Context, c contender, cluster bool, dir string) (*deployment, state, func(), error) {
	var addrs []string
	var s state
	end, find := func() {}, func() error { return nil }
	switch {
	case c.redis && cluster:
		nodes, err := redisserver.StartCluster(ctx, "redis-server")
		if err != nil {
			return nil, nil, nil, err
		}
		addrs, end = nodes.Addrs(), nodes.Stop
		find = func() error {
			holder, err := nodes.Holder(ctx, "*"+hot+"*")
			s = &masterState{redisState{server: nodes.Nodes[holder]}, nodes, holder}
			return err
		}
	case c.redis:
		one, err := startRedis(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		addrs, end, s = []string{one.link.Addr()}, one.stop, one
	}
	d, err := c.open(ctx, dir, addrs)
	if err != nil {
		end()
		return nil, nil, nil, err
	}
	stop := func() { d.stop(); end() }
	if d.state != nil {
		s = d.state
	}
	// find looks for the key of the hot topic while Redis holds it. The pause lets buckets fill and windows end.
	if err := errors.Join(warm(ctx, d.doors), find(), pause(ctx, 1500*time.Millisecond)); err != nil {
		stop()
		return nil, nil, nil, err
	}
	return d, s, stop, nil
}

// warm asks both doors, with half a second of the traffic of the faults, until all answer.
func warm(ctx context.Context, doors [2]ask) error {
	var err error
	for end := time.Now().Add(20 * time.Second); ; {
		err = nil
		for _, e := range play(ctx, doors, failureTraffic(time.Second/2), nil) {
			if e.err != nil {
				err = e.err
			}
		}
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

// sumUp returns the outcome of the events of a run.
func sumUp(name, fault string, events []event, healed time.Duration) *outcome {
	const length = calm + faulty + after
	var before, during, later []event // for the hot key
	pages, lost := 0, 0               // during the fault
	o := &outcome{Contender: name, Fault: fault, Seconds: (healed - calm).Seconds(), Late99: ms(lateness(events))}
	for _, e := range events {
		struck := e.asked >= calm && e.asked < healed
		switch {
		case e.key != hot && struck:
			pages++
			if e.undecided() {
				lost++
			}
		case e.key != hot:
		case e.asked < calm:
			before = append(before, e)
		case struck:
			during = append(during, e)
		default:
			later = append(later, e)
		}
		if struck && e.err != nil && o.First == "" {
			o.First = e.err.Error()
		}
	}
	p50, p99, _ := quantiles(before)
	o.Healthy50, o.Healthy99 = ms(p50), ms(p99)
	p50, p99, longest := quantiles(during)
	o.P50, o.P99, o.Max = ms(p50), ms(p99), ms(longest)
	o.Undecided, o.PagesUndecided = part(undecided(during), len(during)), part(lost, pages)
	o.Hot, o.Rate = admitted(during), rate*o.Seconds
	left := length - healed
	o.HotAfter, o.RateAfter = admitted(later), rate*left.Seconds()
	last := recovery(events, healed)
	o.Recovery, o.Settled = ms(last), left > sound && last < left-sound
	return o
}

func part(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
