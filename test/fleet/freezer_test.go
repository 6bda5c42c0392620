package fleet

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/wait"
)

// freezer can stop a server or a process for a while.
type freezer struct {
	mu    sync.Mutex
	until chan struct{} // nil: it runs
}

// Freeze stops the owner for d as SIGSTOP does: requests that arrive meanwhile are answered afterwards.
func (f *freezer) Freeze(d time.Duration) {
	f.thaw()
	until := make(chan struct{})
	f.mu.Lock()
	f.until = until
	f.mu.Unlock()
	time.AfterFunc(d, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.until == until {
			f.until = nil
			close(until)
		}
	})
}

// thaw ends a freeze at once.
func (f *freezer) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.until != nil {
		close(f.until)
		f.until = nil
	}
}

func (f *freezer) isFrozen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.until != nil
}

func (f *freezer) awaitThaw() {
	for {
		f.mu.Lock()
		until := f.until
		f.mu.Unlock()
		if until == nil {
			return
		}
		<-until
	}
}

// servers are the nodes that processes connect to.
var servers = []string{redisNode, replicaNode, sentinelNode(0), sentinelNode(1), sentinelNode(2), kafkaNode,
	webhookNode}

// halt stops a process for d. Its goroutines wait where they send or receive counts, judge them, or take requests, and
// its standstill receives no beats. Its timers run on, and its requests to servers arrive afterwards.
func (p *process) halt(d time.Duration) {
	p.held.Freeze(d)
	for _, server := range servers {
		p.net.CutBoth(p.name, server, max(0, d-retransmit))
	}
}

// beat is Run of the standstill of a process that may be stopped.
func (p *process) beat(ctx context.Context) error {
	wait.Every(ctx, 100*time.Millisecond, func() {
		if !p.held.isFrozen() {
			p.stood.Beat()
		}
	})
	return nil
}

// stoppableSink accepts counts while its process runs.
type stoppableSink struct {
	sink
	held *freezer
}

type sink interface {
	tally.Sink
	Run(ctx context.Context) error
}

func (s stoppableSink) Send(ctx context.Context, counts []hottype.Count) error {
	s.held.awaitThaw()
	return s.sink.Send(context.WithoutCancel(ctx), counts) // the time of a call does not pass for a stopped process
}

// stoppableConn is the sending end of datagrams of a process.
type stoppableConn struct {
	net.Conn
	held *freezer
}

func (c stoppableConn) Write(b []byte) (int, error) {
	c.held.awaitThaw()
	return c.Conn.Write(b)
}

// stoppablePackets is the socket of a process. Datagrams that arrive while the process stands still wait, as in the
// buffer of a kernel that does not record times of arrival.
type stoppablePackets struct {
	net.PacketConn
	held *freezer
}

func (s stoppablePackets) ReadFrom(b []byte) (int, net.Addr, error) {
	s.held.awaitThaw()
	n, from, err := s.PacketConn.ReadFrom(b)
	s.held.awaitThaw()
	return n, from, err
}

// listen opens the socket of a node.
func (p *process) listen(node string) []net.PacketConn {
	return []net.PacketConn{stoppablePackets{p.net.ListenPacket(node), p.held}}
}

// dial is Network.Dial of a process.
func (p *process) dial(addr netip.Addr) func(context.Context, string, string) (net.Conn, error) {
	open := p.net.Dial(p.name, addr)
	return func(ctx context.Context, network, to string) (net.Conn, error) {
		c, err := open(ctx, network, to)
		return stoppableConn{c, p.held}, err
	}
}
