package listener

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// A client may close its side of a connection after a request and wait for the response. net/http reads a byte while a
// handler runs, takes the end of the stream for the end of the client, and ends the request. Only a write shows whether
// the client has closed its other side too, because its kernel then rejects the data.

// closedFor is how long a response that has begun may be silent for a client that has closed its side, before the
// client counts as gone. Without it a stream without events would go on for no client.
const closedFor = 5 * time.Second

// awaitHangUp is called when the read of a number of bytes returned err. If err is the end of the client's data and a
// handler runs, awaitHangUp waits until the client is gone. It then returns err, or the error of a deadline that ended
// the wait.
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
	if ended := raw.Read(hasHungUp); !side.stopWatch() && ended != nil {
		return ended
	}
	return err
}

// closedSide ends the wait of awaitHangUp when the response has been silent for too long.
type closedSide struct {
	conn *framedConn

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	over  bool // the wait has ended
	gone  bool // it ended because of silence
}

// watch checks whether the response is silent, now and again whenever it may have become so.
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

// stopWatch ends the watch. It reports whether the client is gone because of silence.
func (s *closedSide) stopWatch() (gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.timer.Stop()
	return s.gone
}

// rawConn returns the socket of a connection, or nil if it is unknown.
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
