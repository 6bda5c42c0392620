package tail

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// SyslogConfig configures a Syslog. Only Addr is required.
type SyslogConfig struct {
	Addr string // host:port, of UDP and TCP
	// Allow holds the addresses that are read, or is empty to read all.
	Allow          []netip.Prefix
	MaxLine        int           // bytes of a line, default 65536; longer ones are counted and dropped
	MaxConnections int           // of TCP, each with a buffer of MaxLine; default 256
	Idle           time.Duration // how long a connection may be silent; default 1 hour
	Log            *slog.Logger  // receives failures to accept; default slog.Default()
}

// Syslog receives the messages of syslog: a UDP datagram is one message, and a TCP connection has one a line, or
// messages with their length in front (RFC 6587). Heads are not parsed. Stats may be called by any goroutine, and Run
// once.
//
//	1 socket of UDP ──────────────────────────┐
//	1 socket of TCP ─> 1 goroutine a client ──┴─> f, one call at a time
type Syslog struct {
	cfg     SyslogConfig
	packets net.PacketConn
	streams net.Listener
	counters

	mu   sync.Mutex // held while emit runs
	emit func(line []byte)

	connections atomic.Int64
}

// ListenSyslog binds the address. Without Run call Close.
func ListenSyslog(ctx context.Context, cfg SyslogConfig) (*Syslog, error) {
	cfg.MaxLine = cmp.Or(max(cfg.MaxLine, 0), 65536)
	cfg.MaxConnections = cmp.Or(max(cfg.MaxConnections, 0), 256)
	cfg.Idle = cmp.Or(max(cfg.Idle, 0), time.Hour)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	s := &Syslog{cfg: cfg}
	var lc net.ListenConfig
	var err error
	if s.streams, err = lc.Listen(ctx, "tcp", cfg.Addr); err != nil {
		return nil, fmt.Errorf("tail: syslog: %w", err)
	}
	if s.packets, err = lc.ListenPacket(ctx, "udp", s.streams.Addr().String()); err != nil {
		return nil, errors.Join(fmt.Errorf("tail: syslog: %w", err), s.streams.Close())
	}
	if udp, ok := s.packets.(*net.UDPConn); ok {
		_ = udp.SetReadBuffer(4 << 20) // less if the system allows less
	}
	return s, nil
}

// Addr returns the address of both sockets.
func (s *Syslog) Addr() string { return s.streams.Addr().String() }

// Close closes the sockets of a Syslog that is not run.
func (s *Syslog) Close() error { return errors.Join(s.packets.Close(), s.streams.Close()) }

// Run calls f for each message until ctx ends, and returns nil. f may use the line until it returns, and is called by
// one goroutine at a time. An error means that a socket broke.
func (s *Syslog) Run(ctx context.Context, f func(line []byte)) error {
	s.emit = f
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var parts sync.WaitGroup
	parts.Go(func() { stop(s.receiveDatagrams()) })
	parts.Go(func() { stop(s.accept(running, &parts)) })
	<-running.Done()
	_ = s.Close()
	parts.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("tail: syslog: %w", context.Cause(running))
}

func (s *Syslog) receiveDatagrams() error {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := s.packets.ReadFrom(buf)
		switch {
		case err != nil:
			return err
		case !s.isAllowed(from):
			s.rejected.Add(1)
		case n > s.cfg.MaxLine:
			s.tooLong.Add(1)
		default:
			s.emitMessage(buf[:n])
		}
	}
}

func (s *Syslog) accept(ctx context.Context, parts *sync.WaitGroup) error {
	for {
		conn, err := s.streams.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil { // no descriptor is left
			s.errors.Add(1)
			s.cfg.Log.Warn("syslog: cannot accept a connection; trying again", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if !s.isAllowed(conn.RemoteAddr()) || s.connections.Load() >= int64(s.cfg.MaxConnections) {
			s.rejected.Add(1)
			_ = conn.Close()
			continue
		}
		s.connections.Add(1)
		parts.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			s.readStream(conn)
			_ = conn.Close()
			s.connections.Add(-1)
		})
	}
}

func (s *Syslog) isAllowed(from net.Addr) bool {
	if len(s.cfg.Allow) == 0 {
		return true
	}
	at, err := netip.ParseAddrPort(from.String())
	return err == nil && slices.ContainsFunc(s.cfg.Allow, func(p netip.Prefix) bool {
		return p.Contains(at.Addr().Unmap().WithZone(""))
	})
}

// readStream reads a connection to its end. A line that is cut off there is dropped.
func (s *Syslog) readStream(conn net.Conn) {
	r := bufio.NewReaderSize(conn, s.cfg.MaxLine+1)
	for {
		if conn.SetReadDeadline(time.Now().Add(s.cfg.Idle)) != nil {
			return
		}
		line, err := s.readFrame(r)
		if err != nil {
			return // the end, a silent client, or a shutdown
		}
		s.emitMessage(line)
	}
}

// readFrame reads the next message, or returns nil for a message that is too long.
func (s *Syslog) readFrame(r *bufio.Reader) ([]byte, error) {
	n, head := frameLength(r)
	if n > s.cfg.MaxLine {
		s.tooLong.Add(1)
		_, err := r.Discard(head + n)
		return nil, err
	}
	if n > 0 {
		_, _ = r.Discard(head) // these bytes were only peeked at
		line, err := r.Peek(n)
		_, _ = r.Discard(len(line)) // the line stays in place until the next read
		return line, err
	}
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	s.tooLong.Add(1)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return nil, err
}

// frameLength parses the length of a message that has one in front: at most six digits, a space and the < of a
// priority. It returns 0 if there is no length. head is the number of bytes before the message.
func frameLength(r *bufio.Reader) (n, head int) {
	for ; head < 7; head++ {
		seen, err := r.Peek(head + 1)
		if err != nil {
			return 0, 0
		}
		switch c := seen[head]; {
		case c >= '0' && c <= '9':
			n = 10*n + int(c-'0')
		case c == ' ' && head > 0:
			if seen, err = r.Peek(head + 2); err != nil || seen[head+1] != '<' {
				return 0, 0
			}
			return n, head + 1
		default:
			return 0, 0
		}
	}
	return 0, 0
}

func (s *Syslog) emitMessage(line []byte) {
	line = bytes.TrimRight(line, "\x00\r\n")
	if len(line) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes.Add(uint64(len(line)))
	s.lines.Add(1)
	s.emit(line)
}
