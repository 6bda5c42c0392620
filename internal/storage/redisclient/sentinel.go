package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// sentinels know which server is the master. Every new connection asks them, and
// [Client.Watch] does once a second, because a master that was replaced while it is cut
// off from its Sentinels may still answer: what is written to it then is lost.
//
// All are queried at once, and of a majority that answers the one with the newest
// configuration counts: a Sentinel that is cut off itself knows an old master.
type sentinels struct {
	name  string
	nodes []*redis.Client
	conns *watchdog      // the connections to the master
	asked sync.WaitGroup // queries whose answer is no longer needed
}

// newSentinels opens no connection.
func newSentinels(cfg Config, conns *watchdog) *sentinels {
	s := &sentinels{name: cfg.SentinelMaster, conns: conns}
	own := cfg
	own.Username, own.Password, own.DB, own.PoolSize = cfg.SentinelUsername, cfg.SentinelPassword, 0, 2
	for _, addr := range cfg.Addrs {
		o := own.options().Simple()
		o.Addr, o.Dialer = addr, newWatchdog().dialer(cfg.dial())
		s.nodes = append(s.nodes, redis.NewClient(o))
	}
	return s
}

type masterReply struct {
	addr  string
	epoch int64 // of the configuration; higher is newer
	err   error
}

// dialer makes connections to the master, whatever address they are asked for.
func (s *sentinels) dialer(base dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		master, err := s.master(ctx)
		if err != nil {
			return deadConn{err: err, addr: addr}, nil //nolint:nilerr // the connection says it, so that no dial is retried
		}
		return s.conns.dialer(base)(ctx, network, master)
	}
}

// master asks who it is: one round trip to each Sentinel, side by side.
func (s *sentinels) master(ctx context.Context) (string, error) {
	answers := make(chan masterReply, len(s.nodes))
	for _, n := range s.nodes {
		s.asked.Go(func() { answers <- s.ask(ctx, n) }) // ends within the client's timeout
	}
	var newest masterReply
	var errs []error
	for heard := 0; heard <= len(s.nodes)/2 && heard+len(errs) < len(s.nodes); {
		a := <-answers
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		heard++
		if newest.addr == "" || a.epoch > newest.epoch {
			newest = a
		}
	}
	if newest.addr == "" {
		return "", fmt.Errorf("redisclient: no Sentinel says where master %q is: %w", s.name, errors.Join(errs...))
	}
	return newest.addr, nil
}

// ask asks one Sentinel for the address, which may be news already, and for the age of
// what it knows.
func (s *sentinels) ask(ctx context.Context, n *redis.Client) masterReply {
	pipe := n.Pipeline()
	where := pipe.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.name)
	what := pipe.Do(ctx, "SENTINEL", "MASTER", s.name)
	_, failed := pipe.Exec(ctx)
	addr, err := where.StringSlice()
	if where.Err() == nil && where.Val() == nil {
		err = failed // nothing was sent
	}
	if errors.Is(err, redis.Nil) || err == nil && len(addr) != 2 {
		err = errors.New("it watches no master of this name")
	}
	if err != nil {
		return masterReply{err: fmt.Errorf("sentinel %s: %w", n.Options().Addr, err)}
	}
	fields, _ := what.StringSlice() // epoch 0 where a Sentinel says less
	seen := masterReply{addr: net.JoinHostPort(addr[0], addr[1])}
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "config-epoch" {
			seen.epoch, _ = strconv.ParseInt(fields[i+1], 10, 64)
		}
	}
	return seen
}

// look drops connections to any server but the master.
func (s *sentinels) look(ctx context.Context) (master string, err error) {
	if master, err = s.master(ctx); err == nil {
		s.conns.keepOnly(master)
	}
	return master, err
}

// inspect asks each Sentinel by itself: what it does not answer, by its address.
func (s *sentinels) inspect(ctx context.Context) map[string]string {
	silent := map[string]string{}
	for _, n := range s.nodes {
		if seen := s.ask(ctx, n); seen.err != nil {
			silent[n.Options().Addr] = seen.err.Error()
		}
	}
	return silent
}

func (s *sentinels) close() {
	for _, n := range s.nodes {
		_ = n.Close() // nothing is buffered in it
	}
	s.asked.Wait()
}
