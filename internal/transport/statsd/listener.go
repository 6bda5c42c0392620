// Package statsd writes counts as StatsD counters and reads them back: one
// line "{prefix}.{resource}.hot_param.{component}:{n}|c" for each key. The
// names are package canon's, the wire is described in docs/protocol.md.
//
//	tally ──> Sender ──> datagrams of up to 1432 bytes ──> Listener ──> Handle
//	                     UDP, or a unix socket
//
// [Sender] is a sink for package tally. Several servers share the keys, each
// with a queue and a goroutine of its own:
//
//	Send ──> rendezvous: whose name is it? ──> serverQueue ──> packer ──> link
//	            └──> queue ──> …          │ paced   │ full     │ opened, resolved
//	                                      │         │ datagrams│ anew, refused
//
// Sending waits for no server. A server that is absent, takes nothing, or whose
// name does not resolve costs its own share of the counts and bounded memory.
// [Listener] takes lines from anybody, in datagrams and by connections. What is
// not a counter or set of ours is ignored, or goes on to another server as it
// is; what is broken is counted, nothing is trusted:
//
//	socket ──> burst ────────────┐
//	connection ──> splitter ─────┴> reader ──> sums ──> Handle
//	                                   └──> outbox ──> forwarder ──> link
//
// StatsD carries no time and no sender. Counts are placed by the second in
// which they arrive, unless a line says its own, and a lost datagram is lost:
// that is the bargain. Package kafka makes a better one.
package statsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// ListenerConfig configures a Listener. Addresses, Names and Handle are needed.
type ListenerConfig struct {
	// Addresses to listen on: "host:port" or "udp://host:port" (datagrams),
	// "tcp://host:port", "unix:/path" (datagrams) or "unixstream:/path". A
	// socket file that is there already is replaced.
	Addresses []string
	// Names are how the senders write keys.
	Names canon.Names
	// Handle gets the counts, summed by key, and may keep the slice. It is
	// called by several goroutines where there are several sockets, and must be
	// quick: while it runs a socket is not read, and the kernel's buffer fills.
	Handle func([]hottype.Count)
	// Readers is how many sockets share a UDP port, each with a goroutine and
	// sums of its own; default 1. The kernel spreads the senders over them, one
	// sender stays with one. More than one help when one core is not enough,
	// and only on Linux.
	Readers int
	// Flush is how long counts are summed before Handle gets them; default
	// 20 ms.
	Flush time.Duration
	// Remember is how long metric names are remembered; default 10 s.
	Remember time.Duration
	// MaxNames bounds the names that a reader remembers at once; default 65536.
	// At the bound all are handed over and forgotten, so nothing is lost.
	MaxNames int
	// MaxNameBytes bounds the memory of those names, of their keys and of who
	// stands behind them, in bytes; default 32 MiB. At the bound the same
	// happens.
	MaxNameBytes int
	// MaxCount is the most that one line may count; more is malformed. Default, and
	// at most, hottype.MaxCount.
	MaxCount int64
	// Allow are the addresses whose datagrams and connections are read; empty:
	// everybody's. Unix sockets are guarded by their files.
	Allow []netip.Prefix
	// MaxLine bounds a line in bytes; default 8192. Longer ones are malformed.
	MaxLine int
	// ReadBuffer is the receive buffer to ask the kernel for; default 16 MiB.
	ReadBuffer int
	// MaxConnections bounds the connections of all stream addresses together;
	// default 1024. Each holds some 16 KiB. Further ones are closed.
	MaxConnections int
	// Idle is how long a connection may be silent; default 5 min.
	Idle time.Duration
	// Forward is another StatsD server, "host:port" or "unix:/path", that gets
	// all lines which are not ours, byte for byte; empty: none. With ForwardAll
	// it gets ours too.
	Forward    string
	ForwardAll bool
	// Now gives the arrival time; default time.Now.
	Now func() time.Time
	// Log hears of a small buffer, of malformed lines and of a server that
	// cannot be forwarded to; default slog.Default().
	Log *slog.Logger
}

func (c ListenerConfig) withDefaults() ListenerConfig {
	c.Readers = cmp.Or(max(c.Readers, 0), 1)
	c.Flush = cmp.Or(max(c.Flush, 0), 20*time.Millisecond)
	c.Remember = cmp.Or(max(c.Remember, 0), 10*time.Second)
	c.MaxNames = cmp.Or(max(c.MaxNames, 0), 65536)
	c.MaxCount = min(cmp.Or(max(c.MaxCount, 0), hottype.MaxCount), hottype.MaxCount)
	c.MaxNameBytes = cmp.Or(max(c.MaxNameBytes, 0), 32<<20)
	c.MaxLine = cmp.Or(max(c.MaxLine, 0), 8192)
	c.ReadBuffer = cmp.Or(max(c.ReadBuffer, 0), 16<<20)
	c.MaxConnections = cmp.Or(max(c.MaxConnections, 0), 1024)
	c.Idle = cmp.Or(max(c.Idle, 0), 5*time.Minute)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Listener receives StatsD lines and hands over the counters that are ours.
//
//	n datagram sockets ─────────────────────> n readers ─┬─> Handle
//	m stream sockets ─> 1 goroutine a client ─> m readers ─┴─> 1 forwarder
//
// Stats and Addrs may be called by any goroutine; Run by one.
type Listener struct {
	cfg         ListenerConfig
	sources     []source
	bad         *rejectLog
	senders     senders
	forward     *forwarder // nil: none
	connections connections
}

type source interface {
	run(context.Context) error
	close() error
	addr() net.Addr
	stats(to *ListenerStats)
	signs() *readerStats
}

// NewListener binds the addresses, so that what is sent from now on is kept by
// the kernel. Run reads it and closes the sockets; without Run call Close.
func NewListener(cfg ListenerConfig) (*Listener, error) {
	if err := cfg.Names.Validate(); err != nil {
		return nil, fmt.Errorf("statsd: %w", err)
	}
	if cfg.Handle == nil {
		return nil, errors.New("statsd: a listener without Handle")
	}
	if len(cfg.Addresses) == 0 {
		return nil, errors.New("statsd: a listener without an address")
	}
	cfg = cfg.withDefaults()
	l := &Listener{cfg: cfg, bad: &rejectLog{log: cfg.Log}}
	l.senders.allow, l.senders.bad = cfg.Allow, l.bad
	if cfg.Forward != "" {
		var err error
		if l.forward, err = newForwarder(cfg.Forward, cfg.Log); err != nil {
			return nil, err
		}
	}
	for _, s := range cfg.Addresses {
		if err := l.open(s); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	for _, a := range l.Addrs() {
		if l.forward != nil && l.forward.link.addr.reaches(a) {
			_ = l.Close()
			return nil, fmt.Errorf("statsd: what is forwarded to %s would come back: it is listened on here",
				cfg.Forward)
		}
	}
	return l, nil
}

func (l *Listener) open(s string) error {
	a, err := parseListen(s)
	if err != nil {
		return err
	}
	open := l.openDatagrams
	if a.network == "tcp" || a.network == "unix" {
		open = l.openStreams
	}
	if err := open(a); err != nil {
		return fmt.Errorf("statsd: listen on %s: %w", s, err)
	}
	return nil
}

func (l *Listener) newReader() *reader {
	var out *outbox
	if l.forward != nil {
		out = &outbox{to: l.forward}
	}
	return newReader(l.cfg, l.bad, out)
}

// Addr is the first address that is listened on.
func (l *Listener) Addr() net.Addr { return l.sources[0].addr() }

// Addrs are the addresses that are listened on, in the order of the
// configuration; one for each socket.
func (l *Listener) Addrs() []net.Addr {
	var out []net.Addr
	for _, s := range l.sources {
		out = append(out, s.addr())
	}
	return out
}

// Close closes the sockets of a listener that is not run.
func (l *Listener) Close() error {
	var errs []error
	for _, s := range l.sources {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// Run reads until ctx ends. Then it takes what the kernel had already received,
// hands everything over, forwards what is to be forwarded, closes the sockets
// and returns nil. An error means that a socket broke.
func (l *Listener) Run(ctx context.Context) error {
	forwarding, stopForwarding := context.WithCancel(context.WithoutCancel(ctx))
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		if l.forward != nil {
			l.forward.run(forwarding)
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range l.sources {
		group.Go(func() error { return s.run(ctx) })
	}
	err := group.Wait()
	stopForwarding()
	<-forwarded
	return err
}

// LastHeard is when the last line of a sender of ours came, the zero time before the
// first, and whether senders have said that they live: those say so about once a
// second, so from then on silence means that they cannot be heard.
func (l *Listener) LastHeard() (last time.Time, promised bool) {
	for _, s := range l.sources {
		signs := s.signs()
		if ns := signs.heard.Load(); ns > 0 && time.Unix(0, ns).After(last) {
			last = time.Unix(0, ns)
		}
		promised = promised || signs.alive.Load() > 0
	}
	return last, promised
}

// Stats reads the counters.
func (l *Listener) Stats() ListenerStats {
	out := ListenerStats{
		Sockets:             map[string]SocketStats{},
		Connections:         l.connections.open.Load(),
		ConnectionsAccepted: l.connections.accepted.Load(),
		ConnectionsRefused:  l.connections.refused.Load(),
		ConnectionsIdle:     l.connections.idle.Load(),
		SendersRefused:      l.senders.refused.Load(),
	}
	for _, s := range l.sources {
		s.stats(&out)
	}
	if l.forward != nil {
		f := l.forward.stats()
		out.Forward = &f
	}
	return out
}
