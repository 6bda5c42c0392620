// Package statsd writes counts as StatsD counters and reads them back: one line
// "{prefix}.{resource}.hot_param.{component}:{n}|c" for each key. Package canon defines the names, and docs/protocol.md
// describes the wire format.
//
//	tally ──> Sender ──> datagrams of up to 1432 bytes ──> Listener ──> Handle
//	                     UDP, or a unix socket
//
// [Sender] is a sink for package tally. Several servers share the keys, each with a queue and a goroutine of its own:
//
//	Send ──> rendezvous: server of the name ──> serverQueue ──> packer ──> link
//	            └──> queue ──> …               │ paced   │ full     │ opened, resolved
//	                                           │         │ datagrams│ again, refused
//
// Sending waits for no server. A server that is absent, accepts no datagrams, or whose name does not resolve costs its
// own share of the counts and bounded memory. [Listener] reads lines from any sender, in datagrams and by connections.
// Lines that are not counters or sets of ours are ignored, or forwarded unchanged to another server. Malformed lines
// are counted, and no input is trusted:
//
//	socket ──> burst ────────────┐
//	connection ──> splitter ─────┴> reader ──> sums ──> Handle
//	                                   └──> outbox ──> forwarder ──> link
//
// StatsD carries neither a time nor a sender. Counts are placed by the second in which the kernel received them, unless
// a line carries its own, and a lost datagram is lost. Our sender appends the second to counts that could arrive after
// it, once a receiver of ours has reported, because other servers reject such lines. Package kafka repeats lost counts.
// Heartbeats make a loss visible: see package arrival.
package statsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/wait"
)

// ListenerConfig configures a Listener. Addresses or Packets, Names and Handle are required.
type ListenerConfig struct {
	// Addresses are of the form "host:port" or "udp://host:port" (datagrams), "tcp://host:port", "unix:/path"
	// (datagrams) or "unixstream:/path". An existing socket file is replaced.
	Addresses []string
	// Packets holds open datagram sockets, which are read like the sockets of Addresses and closed at the end. A
	// sender's address is used if it is a *net.UDPAddr.
	Packets []net.PacketConn
	Names   canon.Names // how the senders write keys
	// Handle receives the counts, summed by key, and may keep the slice. Each socket has a goroutine that calls Handle
	// and does not read meanwhile, so it must be quick.
	Handle func([]hottype.Count)
	// Readers is the number of sockets that share a UDP port, each with its own goroutine and sums; default 1. The
	// kernel assigns each sender to one of them. On Linux, more sockets help when one core is not enough.
	Readers int
	Flush   time.Duration // how long counts are summed; default 20 ms
	// MaxNames bounds the names that a reader remembers, default 65536, and MaxNameBytes their memory with keys and
	// clients, default 32 MiB. At a bound all counts are handed over and all names forgotten.
	MaxNames, MaxNameBytes int
	// MaxCount is the maximum count of a line; default and upper bound hottype.MaxCount.
	MaxCount int64
	// Allow holds the addresses that are read, or is empty to read all. Unix sockets are guarded by their files.
	Allow      []netip.Prefix
	MaxLine    int // bytes of a line, default 8192; longer ones are malformed
	ReadBuffer int // bytes of receive buffer to request from the kernel; default 16 MiB
	// MaxConnections bounds the connections of all stream addresses, of 16 KiB each; default 1024.
	MaxConnections int
	Idle           time.Duration // how long a connection may be silent; default 5 min
	// Forward is another StatsD server, "host:port" or "unix:/path", that receives all lines that are not ours, byte
	// for byte, or "" if there is none. With ForwardAll it receives our lines too, without their time.
	Forward    string
	ForwardAll bool
	Now        func() time.Time // default time.Now
	// Standstill reports that this process stood still. Lines that it reads soon afterwards are left out if the kernel
	// does not report when they arrived, as with streams, because they may have waited and would make keys hot. If
	// Standstill is nil, all lines count.
	Standstill *wait.Standstill
	// Log receives a warning about a small buffer, malformed lines, and a failing forward; default slog.Default().
	Log *slog.Logger
}

func (c ListenerConfig) withDefaults() ListenerConfig {
	c.Readers = cmp.Or(max(c.Readers, 0), 1)
	c.Flush = cmp.Or(max(c.Flush, 0), 20*time.Millisecond)
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

// Listener receives StatsD lines and hands over our counters.
//
//	n datagram sockets ─────────────────────> n readers ─┬─> Handle
//	m stream sockets ─> 1 goroutine a client ─> m readers ─┴─> 1 forwarder
//
// Stats and Addrs may be called by any goroutine, and Run by one.
type Listener struct {
	cfg         ListenerConfig
	sources     []source
	bad         *rejectLog
	senders     senders
	forward     *forwarder // nil if lines are not forwarded
	connections connections
	flows       flows
}

type source interface {
	run(context.Context) error
	close() error
	listenAddress() net.Addr
	lineCounters() received
}

// NewListener binds the addresses; the kernel keeps datagrams that arrive before Run. Without Run call Close.
func NewListener(cfg ListenerConfig) (*Listener, error) {
	if err := cfg.Names.Validate(); err != nil {
		return nil, fmt.Errorf("statsd: %w", err)
	}
	if cfg.Handle == nil {
		return nil, errors.New("statsd: a listener without Handle")
	}
	if len(cfg.Addresses)+len(cfg.Packets) == 0 {
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
		if err := l.openAddress(s); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	for _, c := range cfg.Packets {
		l.sources = append(l.sources, &datagrams{name: c.LocalAddr().String(), conn: packets{c},
			in: newSingle(packets{c}), reader: l.newReader(), from: &l.senders})
	}
	for _, a := range l.Addrs() {
		if l.forward != nil && l.forward.link.addr.reachesSocket(a) {
			_ = l.Close()
			return nil, fmt.Errorf("statsd: lines forwarded to %s would come back: this process listens there",
				cfg.Forward)
		}
	}
	return l, nil
}

func (l *Listener) openAddress(s string) error {
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
	return newReader(l.cfg, l.bad, out, &l.flows)
}

// Addr returns the first address that is listened on.
func (l *Listener) Addr() net.Addr { return l.sources[0].listenAddress() }

// Addrs returns the addresses of the sockets, in the order of the configuration.
func (l *Listener) Addrs() []net.Addr {
	var out []net.Addr
	for _, s := range l.sources {
		out = append(out, s.listenAddress())
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

// Run reads until ctx ends. Then it hands over and forwards the lines that the kernel had already received, closes the
// sockets and returns nil. An error means that a socket broke.
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

// LastReceived returns the time of the last line from a sender of ours, or the zero time before the first, and whether
// heartbeats came: senders send one each second, so that silence then means that they are cut off.
func (l *Listener) LastReceived() (last time.Time, promised bool) {
	for _, s := range l.sources {
		r := s.lineCounters()
		if r.heard.After(last) {
			last = r.heard
		}
		promised = promised || r.Alive > 0
	}
	return last, promised
}

// LeavesOut reports whether counts that arrive now may be left out, because this process stood still.
func (l *Listener) LeavesOut() bool { return l.cfg.Standstill.Recent() && l.hasUntimedSource() }

// hasUntimedSource reports whether a source does not know when its lines arrived.
func (l *Listener) hasUntimedSource() bool {
	return slices.ContainsFunc(l.sources, func(s source) bool {
		d, ok := s.(*datagrams)
		return !ok || !d.in.hasArrivalTimes()
	})
}

func (l *Listener) Stats() ListenerStats {
	out := ListenerStats{
		MalformedBy:         map[string]MalformedStats{},
		Sockets:             map[string]SocketStats{},
		Connections:         l.connections.open.Load(),
		ConnectionsAccepted: l.connections.accepted.Load(),
		ConnectionsRejected: l.connections.rejected.Load(),
		ConnectionsIdle:     l.connections.idle.Load(),
		SendersRejected:     l.senders.rejected.Load(),
	}
	for _, s := range l.sources {
		r := s.lineCounters()
		r.addTo(&out)
		if d, ok := s.(*datagrams); ok {
			d.addStatsTo(&out)
		}
	}
	if l.forward != nil {
		out.Forward = new(l.forward.forwardStats())
	}
	return out
}
