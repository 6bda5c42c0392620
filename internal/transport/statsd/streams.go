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
	s.timer = time.AfterFunc(time.Hour, s.flushReader)
	s.timer.Stop() // until counts are due
	if a.network == "tcp" {
		s.name = ln.Addr().String()
	}
	l.sources = append(l.sources, s)
	return nil
}

func (s *streams) listenAddress() net.Addr { return s.ln.Addr() }

func (s *streams) close() error { return s.ln.Close() }

func (s *streams) lineCounters() received { return s.reader.lineCounters() }

// run accepts until ctx ends. Then it reads the data that the kernel has of all connections, waiting ones included,
// hands it over and returns.
func (s *streams) run(ctx context.Context) error {
	var conns sync.WaitGroup
	release := wakeAtEnd(ctx, s.ln.SetDeadline)
	err := s.acceptConns(ctx, &conns)
	release()
	_ = drain(s.ln.SetDeadline, func() error { // the connections that the kernel has accepted already
		conn, err := s.ln.Accept()
		if err == nil {
			s.addConn(ctx, conn, &conns)
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

// acceptConns returns nil when ctx ended. Without file descriptors it tries again, for the sake of the open
// connections.
func (s *streams) acceptConns(ctx context.Context, conns *sync.WaitGroup) error {
	for ctx.Err() == nil {
		conn, err := s.ln.Accept()
		switch {
		case err == nil:
			s.addConn(ctx, conn, conns)
		case errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("statsd: accept on %s: %w", s.name, err)
		default:
			s.reader.bad.logUnserved(s.name, err)
			wait.For(ctx, 100*time.Millisecond)
		}
	}
	return nil
}

func (s *streams) addConn(ctx context.Context, conn net.Conn, conns *sync.WaitGroup) {
	if !s.from.isAllowed(peerAddr(conn)) {
		_ = conn.Close()
		return
	}
	if s.shared.open.Add(1) > int64(s.cfg.MaxConnections) {
		s.shared.open.Add(-1)
		s.shared.rejected.Add(1)
		_ = conn.Close()
		s.reader.bad.logUnserved(s.name, fmt.Errorf("there are %d connections already (--statsd.max_connections)",
			s.cfg.MaxConnections))
		return
	}
	s.shared.accepted.Add(1)
	conns.Go(func() {
		defer s.shared.open.Add(-1)
		defer conn.Close()
		s.serveConn(ctx, conn)
	})
}

// serveConn reads one connection until it ends or is idle, or until ctx ends and no data is left to read.
func (s *streams) serveConn(ctx context.Context, conn net.Conn) {
	from := peerAddr(conn)
	lines := newSplitter(s.cfg.MaxLine,
		func(lines []byte) { s.readLines(from, lines) }, func(line []byte) { s.countCut(from, line) })
	release := wakeAtEnd(ctx, conn.SetReadDeadline)
	err := s.readConn(ctx, conn, lines)
	release()
	if err == nil {
		err = drain(conn.SetReadDeadline, func() error { return readOnce(conn, lines) })
	}
	lines.processRest(errors.Is(err, io.EOF))
}

// readConn returns nil when ctx ended.
func (s *streams) readConn(ctx context.Context, conn net.Conn, lines *splitter) error {
	for s.extendDeadline(ctx, conn) {
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

// extendDeadline sets the deadline of a connection and reports whether ctx has not ended. It checks ctx last, so that
// the wake-up at its end is not overwritten.
func (s *streams) extendDeadline(ctx context.Context, conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(s.cfg.Idle))
	return ctx.Err() == nil
}

func readOnce(conn net.Conn, lines *splitter) error {
	n, err := conn.Read(lines.freeSpace())
	lines.processBytes(n)
	return err
}

func (s *streams) readLines(from netip.Addr, lines []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reader.from = netip.AddrPortFrom(from, 0)
	s.reader.readLines(lines)
	if next := s.reader.flush(time.Now()); !s.armed {
		s.setFlushTimer(next)
	}
}

// setFlushTimer sets the time at which the sums are handed over, or stops if next is zero because there are none.
func (s *streams) setFlushTimer(next time.Time) {
	if s.armed = !next.IsZero(); s.armed {
		s.timer.Reset(time.Until(next))
	}
}

func (s *streams) countCut(from netip.Addr, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reader.from = netip.AddrPortFrom(from, 0)
	s.reader.countCut(line)
}

func (s *streams) flushReader() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setFlushTimer(s.reader.flush(time.Now()))
}
