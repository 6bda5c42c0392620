package listener

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// A client may close its side of a connection behind a request and wait for the answer. net/http reads a byte while a
// handler runs, takes the end of the stream for the end of the client, and ends the request. Whether the client closed
// its other side too shows when something is written to it, which its kernel rejects then.

// closedFor is how long an answer that has begun may be silent for a client that has closed its side, before the client
// counts as gone: else a stream without events would go on for nobody.
const closedFor = 5 * time.Second

// awaitHangUp is called when the read of a number of bytes gave err. If that is the end of what the client sends, and a
// handler runs, it waits until the client is gone. It returns err then, or the error of a deadline that ended the wait.
func (c *framedConn) awaitHangUp(bytes int, err error) error {
	if bytes != 1 || !errors.Is(err, io.EOF) || !c.other.Load() {
		return err // net/http reads one byte only while a handler runs
	}
	raw := rawConn(c)
	if raw == nil {
		return err
	}
	side := &closedSide{conn: c}
	side.watch()
	if ended := raw.Read(hasHungUp); !side.end() && ended != nil {
		return ended
	}
	return err
}

// closedSide ends the wait of awaitHangUp when the answer has been silent for too long.
type closedSide struct {
	conn *framedConn

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	over  bool // the wait has ended
	gone  bool // it ended because of silence
}

// watch looks whether the answer is silent, now and whenever it may be.
func (s *closedSide) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := closedFor
	if at := s.conn.written.Load(); at != 0 {
		left -= time.Since(time.Unix(0, at))
	}
	switch {
	case s.over:
	case s.timer != nil && left <= 0:
		s.gone = true
		_ = s.conn.SetReadDeadline(time.Unix(1, 0)) // ends the wait
	default:
		s.timer = time.AfterFunc(max(left, 0), s.watch)
	}
}

// end ends the watch. It reports whether the client is gone because of silence.
func (s *closedSide) end() (gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.timer.Stop()
	return s.gone
}

// rawConn is the socket of a connection, or nil if it is not known.
func rawConn(nc net.Conn) syscall.RawConn {
	for {
		switch c := nc.(type) {
		case syscall.Conn:
			raw, err := c.SyscallConn()
			if err != nil {
				return nil
			}
			return raw
		case *conn:
			nc = c.Conn
		case *headedConn:
			nc = c.Raw()
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}
