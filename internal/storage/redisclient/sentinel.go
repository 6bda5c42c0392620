package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// sentinels finds the server that is the master. Every new connection asks the Sentinels, and [Client.Watch] does once
// a second, because a master that was replaced while it is cut off from its Sentinels may still answer, and writes to
// it are lost.
//
// All Sentinels are queried at once. If a majority answers, the Sentinel with the newest configuration counts, because
// a Sentinel that is cut off itself knows an old master. If fewer answer within a third of the time of a call, a second
// third is for asking the server that they name, and the last master, for its role: only a server that claims to be a
// master is used. The last third is for connecting to it.
type sentinels struct {
	name    string
	nodes   []*redis.Client
	server  func(addr string) *redis.Client // returns a client of one server, to be closed
	timeout time.Duration                   // of a call
	conns   *watchdog                       // the connections to the master
	asked   sync.WaitGroup                  // queries whose answer is no longer needed
	last    atomic.Pointer[string]          // address of the last master, or nil
	few     atomic.Pointer[fewMaster]       // of the last look; nil after a majority or without a master
}

// fewMaster is the master that a look found while too few Sentinels answered.
type fewMaster struct {
	addr  string
	until time.Time // by then there is another look, if any
}

// newSentinels returns sentinels. It opens no connection.
func newSentinels(cfg Config, conns *watchdog) *sentinels {
	s := &sentinels{name: cfg.SentinelMaster, timeout: cfg.Timeout, conns: conns}
	single := func(cfg Config, addr string, connections int) *redis.Client {
		cfg.PoolSize = connections
		o := cfg.clientOptions().Simple()
		o.Addr, o.Dialer = addr, newWatchdog().watchedDialer(cfg.newDialer())
		return redis.NewClient(o)
	}
	s.server = func(addr string) *redis.Client { return single(cfg, addr, 1) }
	own := cfg
	own.Username, own.Password, own.PasswordFile = cfg.SentinelUsername, cfg.SentinelPassword, cfg.SentinelPasswordFile
	own.DB = 0
	for _, addr := range cfg.Addrs {
		s.nodes = append(s.nodes, single(own, addr, 2))
	}
	return s
}

type masterReply struct {
	addr  string
	epoch int64 // of the configuration; higher is newer
	err   error
}

// foundMaster is a server to use as the master.
type foundMaster struct {
	addr   string // "" if no master was found
	tooFew bool   // fewer than a majority of the Sentinels answered; the server itself claims to be a master
}

// masterDialer returns a function that makes connections to the master and ignores the address that it is called with.
func (s *sentinels) masterDialer(base dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		master, err := s.masterToDial(ctx)
		if err != nil {
			return deadConn{err: uncutError(err), addr: addr}, nil // so that no dial is retried
		}
		return s.conns.watchedDialer(base)(ctx, network, master)
	}
}

// masterToDial returns the master for a new connection. It does not wait again for Sentinels that were silent at the
// last look, because each connection would then take a third of the time of a call. Instead it asks the server that the
// look found for its role.
func (s *sentinels) masterToDial(ctx context.Context) (string, error) {
	if few := s.few.Load(); few != nil && time.Now().Before(few.until) {
		if addr, err := s.firstMaster(ctx, s.thirdOfBudget(ctx), []string{few.addr}); err == nil {
			return addr, nil
		}
	}
	master, err := s.findMaster(ctx)
	return master.addr, err
}

// thirdOfBudget returns a third of the time that a call has.
func (s *sentinels) thirdOfBudget(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(s.timeout, time.Until(deadline)) / 3
	}
	return s.timeout / 3
}

// findMaster finds the master. It takes one round trip to each Sentinel, side by side, and if too few of them answer,
// one to each server that may be the master.
func (s *sentinels) findMaster(ctx context.Context) (foundMaster, error) {
	third := s.thirdOfBudget(ctx)
	newest, heard, err := s.askAll(ctx, third)
	if heard > len(s.nodes)/2 {
		s.last.Store(&newest)
		return foundMaster{addr: newest}, nil
	}
	found := foundMaster{tooFew: true}
	var candidates []string
	for _, addr := range []*string{&newest, s.last.Load()} {
		if addr != nil && *addr != "" && !slices.Contains(candidates, *addr) {
			candidates = append(candidates, *addr)
		}
	}
	if len(candidates) == 0 {
		return found, fmt.Errorf("redisclient: no Sentinel knows the address of master %q: %w", s.name, err)
	}
	var notMaster error
	if found.addr, notMaster = s.firstMaster(ctx, third, candidates); notMaster != nil {
		return found, fmt.Errorf("redisclient: only %d of %d Sentinels say where master %q is, which is too few, and %w: %w",
			heard, len(s.nodes), s.name, notMaster, err)
	}
	s.last.Store(&found.addr)
	return found, nil
}

// askAll asks all Sentinels until a majority has answered, until within has passed, or until ctx is canceled, which the
// client of a connection does not notice while it reads. It returns the master of the newest configuration or "", the
// number of Sentinels that named one, and the errors of the others.
func (s *sentinels) askAll(ctx context.Context, within time.Duration) (addr string, heard int, err error) {
	limited, cancel := context.WithTimeout(ctx, within)
	answers := make(chan masterReply, len(s.nodes))
	var asking sync.WaitGroup
	for _, n := range s.nodes {
		asking.Go(func() { answers <- s.askSentinel(limited, n) })
	}
	s.asked.Go(func() { // later answers are not needed, but their connections are
		asking.Wait()
		cancel()
	})
	var newest masterReply
	var errs []error
	for heard <= len(s.nodes)/2 && heard+len(errs) < len(s.nodes) {
		var a masterReply
		select {
		case a = <-answers:
		case <-ctx.Done():
			return newest.addr, heard, errors.Join(append(errs, ctx.Err())...)
		}
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		heard++
		if newest.addr == "" || a.epoch > newest.epoch {
			newest = a
		}
	}
	return newest.addr, heard, errors.Join(errs...)
}

// firstMaster asks servers for their own role, side by side, and returns the first in addrs that is a master. Like
// askAll, it does not wait for answers when ctx is canceled.
func (s *sentinels) firstMaster(ctx context.Context, within time.Duration, addrs []string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, within)
	errs, answered := make([]error, len(addrs)), make(chan struct{})
	var asking sync.WaitGroup
	for i, addr := range addrs {
		asking.Go(func() { errs[i] = s.checkMaster(limited, addr) })
	}
	s.asked.Go(func() {
		asking.Wait()
		cancel()
		close(answered)
	})
	select {
	case <-answered:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if i := slices.Index(errs, nil); i >= 0 {
		return addrs[i], nil
	}
	return "", errors.Join(errs...)
}

// checkMaster returns nil if a server claims to be a master. Every user may ask for the greeting; ROLE is for servers
// before Redis 6, which have no greeting. It takes one or two round trips after connecting.
func (s *sentinels) checkMaster(ctx context.Context, addr string) error {
	c := s.server(addr)
	defer c.Close()
	answer, err := c.Do(ctx, "HELLO").Slice()
	if err == nil {
		if i := slices.Index(answer, any("role")); i >= 0 && i+1 < len(answer) {
			answer = answer[i+1:]
		}
	} else if ctx.Err() == nil {
		answer, err = c.Do(ctx, "ROLE").Slice()
	}
	switch {
	case err != nil:
		return fmt.Errorf("server %s does not say whether it is the master: %w", addr, err)
	case len(answer) == 0 || answer[0] != "master":
		return fmt.Errorf("server %s reports that it is not a master", addr)
	}
	return nil
}

// askSentinel asks one Sentinel for the address, which may already be the next master's, and for the epoch of its
// configuration.
func (s *sentinels) askSentinel(ctx context.Context, n *redis.Client) masterReply {
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
	fields, _ := what.StringSlice() // epoch 0 if a Sentinel reports less
	seen := masterReply{addr: net.JoinHostPort(addr[0], addr[1])}
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "config-epoch" {
			seen.epoch, _ = strconv.ParseInt(fields[i+1], 10, 64)
		}
	}
	return seen
}

// refreshMaster finds the master, and drops connections to any other server.
func (s *sentinels) refreshMaster(ctx context.Context) (foundMaster, error) {
	master, err := s.findMaster(ctx)
	if err != nil {
		s.few.Store(nil)
		return master, err
	}
	s.conns.closeOthers(master.addr)
	var few *fewMaster
	if master.tooFew {
		few = &fewMaster{addr: master.addr, until: time.Now().Add(watchEvery + s.timeout)}
	}
	s.few.Store(few)
	return master, nil
}

// inspectSentinels asks each Sentinel by itself. It returns the errors of the Sentinels that do not name the master, by
// their address.
func (s *sentinels) inspectSentinels(ctx context.Context) map[string]string {
	silent := map[string]string{}
	for _, n := range s.nodes {
		if seen := s.askSentinel(ctx, n); seen.err != nil {
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
