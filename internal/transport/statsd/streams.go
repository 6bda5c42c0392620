package statsd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/wait"
)

// streams is one address that accepts connections. They share a reader, for a chunk of lines at a time. Connections are
// not read with the lock held, so that a slow connection does not delay the others.
type streams struct {
	name   string
	cfg    ListenerConfig
	ln     acceptor
	shared *connections
	from   *senders

	mu     sync.Mutex // guards the fields below
	reader *reader
	timer  *time.Timer // calls flush when the reader's sums are due
	armed  bool
}

// acceptor contains the common methods of *net.TCPListener and *net.UnixListener.
type acceptor interface {
	net.Listener
	SetDeadline(time.Time) error
}

// connections counts the connections of all addresses.
type connections struct {
	open                     atomic.Int64
	accepted, rejected, idle atomic.Uint64
}

func (l *Listener) openStreams(a address) error {
	if a.network == "unix" {
		if err := removeSocket(a.addr); err != nil {
			return err
		}
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), a.network, a.addr) // binding does not wait
	if err != nil {
		return err
	}
	to, ok := ln.(acceptor)
	if !ok {
		_ = ln.Close()
		return fmt.Errorf("%T has no deadlines", ln)
	}
	s := &streams{name: a.addr, cfg: l.cfg, ln: to, shared: &l.connections, from: &l.senders, reader: l.newReader()}
	s.timer = time.AfterFunc(time.Hour, s.flush)
	s.timer.Stop() // until counts are due
	if a.network == "tcp" {
		s.name = ln.Addr().String()
	}
	l.sources = append(l.sources, s)
	return nil
}

func (s *streams) addr() net.Addr { return s.ln.Addr() }

func (s *streams) close() error { return s.ln.Close() }

func (s *streams) received() received { return s.reader.received() }

// run accepts until ctx ends. Then it reads the data that the kernel has of all connections, waiting ones included,
// hands it over and returns.
func (s *streams) run(ctx context.Context) error {
	var conns sync.WaitGroup
	release := wakeAtEnd(ctx, s.ln.SetDeadline)
	err := s.accept(ctx, &conns)
	release()
	_ = drain(s.ln.SetDeadline, func() error { // the connections that the kernel has accepted already
		conn, err := s.ln.Accept()
		if err == nil {
			s.add(ctx, conn, &conns)
		}
		return err
	})
	_ = s.ln.Close()
	conns.Wait()
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reader.finish() // a flush that has begun finds nothing then
	return err
}

// accept returns nil when ctx ended. Without file descriptors it tries again, for the sake of the open connections.
func (s *streams) accept(ctx context.Context, conns *sync.WaitGroup) error {
	for ctx.Err() == nil {
		conn, err := s.ln.Accept()
		switch {
		case err == nil:
			s.add(ctx, conn, conns)
		case errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("statsd: accept on %s: %w", s.name, err)
		default:
			s.reader.bad.accept(s.name, err)
			wait.For(ctx, 100*time.Millisecond)
		}
	}
	return nil
}

func (s *streams) add(ctx context.Context, conn net.Conn, conns *sync.WaitGroup) {
	if !s.from.allows(peer(conn)) {
		_ = conn.Close()
		return
	}
	if s.shared.open.Add(1) > int64(s.cfg.MaxConnections) {
		s.shared.open.Add(-1)
		s.shared.rejected.Add(1)
		_ = conn.Close()
		s.reader.bad.accept(s.name, fmt.Errorf("there are %d connections already (--statsd.max_connections)",
			s.cfg.MaxConnections))
		return
	}
	s.shared.accepted.Add(1)
	conns.Go(func() {
		defer s.shared.open.Add(-1)
		defer conn.Close()
		s.serve(ctx, conn)
	})
}

// serve reads one connection until it ends or is idle, or until ctx ends and no data is left to read.
func (s *streams) serve(ctx context.Context, conn net.Conn) {
	from := peer(conn)
	lines := newSplitter(s.cfg.MaxLine,
		func(lines []byte) { s.take(from, lines) }, func(line []byte) { s.cut(from, line) })
	release := wakeAtEnd(ctx, conn.SetReadDeadline)
	err := s.read(ctx, conn, lines)
	release()
	if err == nil {
		err = drain(conn.SetReadDeadline, func() error { return readOnce(conn, lines) })
	}
	lines.end(errors.Is(err, io.EOF))
}

// read returns nil when ctx ended.
func (s *streams) read(ctx context.Context, conn net.Conn, lines *splitter) error {
	for s.waits(ctx, conn) {
		err := readOnce(conn, lines)
		switch late := errors.Is(err, os.ErrDeadlineExceeded); {
		case err == nil, late && ctx.Err() != nil:
		case late:
			s.shared.idle.Add(1)
			return err
		default:
			return err
		}
	}
	return nil
}

// waits sets the deadline of a connection and reports whether ctx has not ended. It checks ctx last, so that the
// wake-up at its end is not overwritten.
func (s *streams) waits(ctx context.Context, conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(s.cfg.Idle))
	return ctx.Err() == nil
}

func readOnce(conn net.Conn, lines *splitter) error {
	n, err := conn.Read(lines.room())
	lines.filled(n)
	return err
}

func (s *streams) take(from netip.Addr, lines []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reader.from = netip.AddrPortFrom(from, 0)
	s.reader.lines(lines)
	if next := s.reader.flush(time.Now()); !s.armed {
		s.arm(next)
	}
}

// arm sets the time at which the sums are handed over, or stops if next is zero because there are none.
func (s *streams) arm(next time.Time) {
	if s.armed = !next.IsZero(); s.armed {
		s.timer.Reset(time.Until(next))
	}
}

func (s *streams) cut(from netip.Addr, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reader.from = netip.AddrPortFrom(from, 0)
	s.reader.cut(line)
}

func (s *streams) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arm(s.reader.flush(time.Now()))
}
