package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/bench/internal/link"
	"github.com/hotparam/pipeline/bench/internal/redisserver"
)

// scenario is one way in which Redis fails.
type scenario struct {
	name    string
	args    []string // arguments of redis-server
	linked  bool     // the gates are behind a link
	cluster bool
	forgets bool // Redis loses data
	// trouble makes Redis fail for d and heals it. It returns when Redis answers again.
	trouble func(ctx context.Context, s *site, d time.Duration) error
}

// site is the Redis of one scenario.
type site struct {
	server  *redisserver.Server
	cluster *redisserver.Cluster
	link    *link.Link
	addrs   []string // for the gates
}

func scenarios() []scenario {
	return []scenario{
		{name: "healthy", trouble: func(ctx context.Context, _ *site, d time.Duration) error { return pause(ctx, d) }},
		{name: "frozen", trouble: frozen},
		{name: "killed", forgets: true, trouble: killed},
		{name: "black hole", linked: true, trouble: cut(link.Hollow)},
		{name: "answers lost", linked: true, trouble: cut(link.Deaf)},
		{name: "connections forgotten", linked: true, trouble: forgotten},
		{name: "healthy cluster", cluster: true, trouble: func(ctx context.Context, _ *site, d time.Duration) error {
			return pause(ctx, d)
		}},
		{name: "failover of a node", cluster: true, forgets: true, trouble: failover},
		{name: "BUSY", args: []string{"--busy-reply-threshold", "100"}, trouble: busy},
		{name: "LOADING", args: []string{"--enable-debug-command", "yes"}, forgets: true, trouble: loading},
		{name: "OOM", trouble: set([]any{"CONFIG", "SET", "maxmemory", "1mb"},
			[]any{"CONFIG", "SET", "maxmemory", "0"})},
		{name: "READONLY", trouble: set([]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"})},
		{name: "MASTERDOWN", args: []string{"--replica-serve-stale-data", "no"},
			trouble: set([]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"})},
		{name: "NOSCRIPT", trouble: noscript},
	}
}

// open starts the scenario's Redis.
func (sc *scenario) open(ctx context.Context, path string) (*site, error) {
	s := &site{}
	var err error
	if sc.cluster {
		if s.cluster, err = redisserver.StartCluster(ctx, path); err != nil {
			return nil, err
		}
		s.addrs = s.cluster.Addrs()
		return s, nil
	}
	if s.server, err = redisserver.Start(ctx, path, sc.args...); err != nil {
		return nil, err
	}
	s.addrs = []string{s.server.Addr}
	if sc.linked {
		if s.link, err = link.New(ctx, s.server.Addr); err != nil {
			s.close()
			return nil, err
		}
		s.addrs = []string{s.link.Addr()}
	}
	return s, nil
}

func (s *site) close() {
	if s.link != nil {
		s.link.Close()
	}
	if s.cluster != nil {
		s.cluster.Stop()
	}
	if s.server != nil {
		s.server.Stop()
	}
}

func frozen(ctx context.Context, s *site, d time.Duration) error {
	if err := s.server.Freeze(); err != nil {
		return err
	}
	_ = pause(ctx, d) // it has to be thawed in any case
	return s.server.Thaw()
}

func killed(ctx context.Context, s *site, d time.Duration) error {
	s.server.Kill()
	if err := pause(ctx, d/2); err != nil {
		return err
	}
	if err := s.server.Launch(ctx); err != nil {
		return err
	}
	return s.answers(ctx)
}

func cut(m link.Mode) func(context.Context, *site, time.Duration) error {
	return func(ctx context.Context, s *site, d time.Duration) error {
		s.link.Set(m)
		defer s.link.Set(link.Whole)
		return pause(ctx, d)
	}
}

// forgotten acts like a firewall that has lost its table: the present connections are dead, new connections work.
func forgotten(_ context.Context, s *site, _ time.Duration) error {
	s.link.Set(link.Hollow)
	s.link.Set(link.Whole)
	return nil
}

func failover(ctx context.Context, s *site, _ time.Duration) error {
	i, err := s.cluster.Holder(ctx, "*hot:k:*")
	if err != nil {
		return err
	}
	s.cluster.Nodes[i].Kill()
	return s.cluster.Replaced(ctx, i)
}

func busy(ctx context.Context, s *site, d time.Duration) error {
	c := s.server.Client()
	defer c.Close()
	over := make(chan struct{})
	go func() { // until it is killed, which is the error that it returns
		_ = c.Eval(ctx, "while true do end", nil).Err()
		close(over)
	}()
	if err := pause(ctx, d); err != nil {
		return err
	}
	if err := s.server.Do(ctx, "SCRIPT", "KILL"); err != nil {
		return err
	}
	<-over
	return s.answers(ctx)
}

// loading starts the server again with data to load. A setting that Redis has for its own tests makes loading slow, so
// that it takes as long as d.
func loading(ctx context.Context, s *site, d time.Duration) error {
	const keys = 20_000
	for _, command := range [][]any{{"DEBUG", "POPULATE", keys}, {"SAVE"}} {
		if err := s.server.Do(ctx, command...); err != nil {
			return err
		}
	}
	s.server.Kill()
	each := fmt.Sprint(d.Microseconds() / keys)
	if err := s.server.Launch(ctx, "--key-load-delay", each, "--loading-process-events-interval-bytes",
		"1024"); err != nil {
		return err
	}
	return s.answers(ctx)
}

// set makes the server fail by one command and heals it by another.
func set(ill, well []any) func(context.Context, *site, time.Duration) error {
	return func(ctx context.Context, s *site, d time.Duration) error {
		if err := s.server.Do(ctx, ill...); err != nil {
			return err
		}
		if err := pause(ctx, d); err != nil {
			return err
		}
		return s.server.Do(ctx, well...)
	}
}

// noscript makes the server forget its scripts all the time.
func noscript(ctx context.Context, s *site, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := s.server.Do(ctx, "SCRIPT", "FLUSH"); err != nil {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// answers waits until the server answers.
func (s *site) answers(ctx context.Context) error {
	for s.server.Ping() != nil {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
