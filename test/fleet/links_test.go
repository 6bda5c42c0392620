package fleet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// parcel is a datagram or a part of a stream with its time of arrival.
type parcel struct {
	at   time.Time
	from netip.AddrPort
	data []byte
}

// inbox is the receiving end of a link. It has one reader.
type inbox struct {
	changed chan struct{} // holds a signal

	mu       sync.Mutex // guards the rest
	parcels  []parcel   // by time of arrival
	err      error      // after all of them
	deadline time.Time
}

func newInbox() *inbox { return &inbox{changed: make(chan struct{}, 1)} }

// with runs f under the lock and wakes the reader.
func (b *inbox) with(f func()) {
	b.mu.Lock()
	f()
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *inbox) end(err error) {
	b.with(func() {
		if b.err == nil {
			b.err = err
		}
	})
}

func (b *inbox) setDeadline(t time.Time) { b.with(func() { b.deadline = t }) }

// put adds a parcel. A parcel of a stream arrives after the parcel before it.
func (b *inbox) put(p parcel, ordered bool) (err error) {
	b.with(func() {
		if err = b.err; err != nil {
			return
		}
		at := len(b.parcels)
		if ordered && at > 0 && p.at.Before(b.parcels[at-1].at) {
			p.at = b.parcels[at-1].at
		}
		for at > 0 && p.at.Before(b.parcels[at-1].at) {
			at--
		}
		b.parcels = slices.Insert(b.parcels, at, p)
	})
	return err
}

// read returns data that has arrived, or waits for it. It drops the rest of a datagram and keeps the rest of a stream.
func (b *inbox) read(to []byte, datagram bool) (int, netip.AddrPort, error) {
	for {
		n, from, until, err := b.take(to, datagram)
		if n >= 0 || err != nil {
			return max(n, 0), from, err
		}
		if until.IsZero() {
			<-b.changed
			continue
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-b.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take returns the data that has arrived. If there is no such data, n is negative and until is the time to try again,
// or zero if there is no such time.
func (b *inbox) take(to []byte, datagram bool) (n int, from netip.AddrPort, until time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.deadline.IsZero() && !now.Before(b.deadline) {
		return -1, from, until, os.ErrDeadlineExceeded
	}
	until = b.deadline
	if len(b.parcels) == 0 {
		return -1, from, until, b.err
	}
	first := &b.parcels[0]
	if first.at.After(now) {
		if until.IsZero() || first.at.Before(until) {
			until = first.at
		}
		return -1, from, until, nil
	}
	n, from = copy(to, first.data), first.from
	if first.data = first.data[n:]; datagram || len(first.data) == 0 {
		b.parcels = slices.Delete(b.parcels, 0, 1)
	}
	return n, from, until, nil
}

// stream is one end of a connection. Writes never wait.
type stream struct {
	net      *Network
	id       uint64
	from, to string
	in, out  *inbox
	closed   bool // guarded by net.mu
}

// Connect opens a connection between two nodes, and returns both ends.
func (n *Network) Connect(from, to string) (mine, theirs net.Conn, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead[from] || n.dead[to] {
		return nil, nil, syscall.ECONNREFUSED
	}
	there, back := newInbox(), newInbox()
	a := &stream{net: n, id: n.opened, from: from, to: to, in: back, out: there}
	b := &stream{net: n, id: n.opened + 1, from: to, to: from, in: there, out: back}
	n.opened += 2
	n.streams[a], n.streams[b] = struct{}{}, struct{}{}
	return a, b, nil
}

func (s *stream) Read(p []byte) (int, error) {
	n, _, err := s.in.read(p, false)
	return n, err
}

func (s *stream) Write(p []byte) (int, error) {
	at, err := s.send(p)
	if err == nil && !at.IsZero() {
		err = s.out.put(parcel{at: at, data: slices.Clone(p)}, true)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// send returns the time at which p arrives, or zero if it never does.
func (s *stream) send(p []byte) (at time.Time, err error) {
	n := s.net
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case s.closed:
		return at, net.ErrClosed
	case n.dead[s.from]:
		return at, nil
	}
	n.note("stream %s>%s %q", s.from, s.to, p)
	n.bytes[[2]string{s.from, s.to}] += uint64(len(p))
	w := n.way(s.from, s.to)
	at = w.at(time.Now())
	if w.random.Float64() < w.Loss {
		at, w.lost = at.Add(retransmit), time.Now()
	}
	if at.Before(w.closed) {
		at = w.closed.Add(retransmit)
	}
	return at, nil
}

func (s *stream) Close() error {
	s.net.mu.Lock()
	was := s.closed
	s.closed = true
	delete(s.net.streams, s)
	s.net.mu.Unlock()
	if was {
		return net.ErrClosed
	}
	s.out.end(io.EOF)
	s.in.end(net.ErrClosed)
	return nil
}

func (s *stream) LocalAddr() net.Addr               { return nodeAddr(s.from) }
func (s *stream) RemoteAddr() net.Addr              { return nodeAddr(s.to) }
func (s *stream) SetDeadline(t time.Time) error     { s.in.setDeadline(t); return nil }
func (s *stream) SetReadDeadline(t time.Time) error { s.in.setDeadline(t); return nil }
func (s *stream) SetWriteDeadline(time.Time) error  { return nil }

type nodeAddr string

func (nodeAddr) Network() string  { return "fleet" }
func (a nodeAddr) String() string { return string(a) }

// socket receives the datagrams of a node.
type socket struct {
	net  *Network
	node string
	in   *inbox
}

// ListenPacket opens the socket of a node.
func (n *Network) ListenPacket(node string) net.PacketConn {
	s := &socket{net: n, node: node, in: newInbox()}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sockets[node] = s
	return s
}

func (s *socket) ReadFrom(p []byte) (int, net.Addr, error) {
	n, from, err := s.in.read(p, true)
	return n, net.UDPAddrFromAddrPort(from), err
}

func (s *socket) Close() error {
	s.net.mu.Lock()
	if s.net.sockets[s.node] == s {
		delete(s.net.sockets, s.node)
	}
	s.net.mu.Unlock()
	s.in.end(net.ErrClosed)
	return nil
}

func (s *socket) WriteTo([]byte, net.Addr) (int, error) { return 0, errors.ErrUnsupported }
func (s *socket) LocalAddr() net.Addr                   { return nodeAddr(s.node) }
func (s *socket) SetDeadline(t time.Time) error         { s.in.setDeadline(t); return nil }
func (s *socket) SetReadDeadline(t time.Time) error     { s.in.setDeadline(t); return nil }
func (s *socket) SetWriteDeadline(time.Time) error      { return nil }

// datagrams is a socket that is connected to another node.
type datagrams struct {
	net      *Network
	from, to string
	addr     netip.AddrPort
	// Guarded by net.mu.
	refused bool      // the last one found no socket
	last    time.Time // arrival of the last one that was not late: the packets of a flow take one path, in order
}

// Dial returns the statsd.SenderConfig.Dial of a node with the address addr.
func (n *Network) Dial(from string, addr netip.Addr) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, _, to string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(to)
		return &datagrams{net: n, from: from, to: host, addr: netip.AddrPortFrom(addr, 4321)}, err
	}
}

func (d *datagrams) Write(p []byte) (int, error) {
	n := d.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if d.refused {
		d.refused = false
		return 0, syscall.ECONNREFUSED
	}
	if n.dead[d.from] {
		return len(p), nil
	}
	n.note("datagram %s>%s %q", d.from, d.to, p)
	to, w, now := n.sockets[d.to], n.way(d.from, d.to), time.Now()
	lost, double := w.random.Float64() < w.Loss, w.random.Float64() < w.Double
	switch {
	case to == nil:
		d.refused = true
		return len(p), nil
	case lost:
		n.note("lost %s>%s", d.from, d.to)
		w.missed = now
		return len(p), nil
	case now.Before(w.closed):
		return len(p), nil
	case double:
		d.deliver(w, now, to, p)
	}
	d.deliver(w, now, to, p)
	return len(p), nil
}

// deliver sends one copy. It requires d.net.mu.
func (d *datagrams) deliver(w *way, now time.Time, to *socket, p []byte) {
	at := w.at(now)
	if at.Before(d.last) {
		at = d.last
	}
	if w.random.Float64() < w.Late {
		d.net.note("late %s>%s", d.from, d.to)
		w.missed = now
		at = at.Add(time.Duration(w.random.Int64N(int64(latest))))
	} else {
		d.last = at
	}
	_ = to.in.put(parcel{at: at, from: d.addr, data: slices.Clone(p)}, false) // a closed socket takes nothing
}

func (d *datagrams) Read([]byte) (int, error)         { return 0, errors.ErrUnsupported }
func (d *datagrams) Close() error                     { return nil }
func (d *datagrams) LocalAddr() net.Addr              { return nodeAddr(d.from) }
func (d *datagrams) RemoteAddr() net.Addr             { return nodeAddr(d.to) }
func (d *datagrams) SetDeadline(time.Time) error      { return nil }
func (d *datagrams) SetReadDeadline(time.Time) error  { return nil }
func (d *datagrams) SetWriteDeadline(time.Time) error { return nil }
