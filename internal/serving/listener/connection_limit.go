package listener

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// writeWithin is how long a client may take to make room for what is written to it.
// It holds for each write, so a long answer that is read slowly goes on. A write may have
// up to writeSlack less: a deadline costs as much as deciding about a request, and is not
// set anew before that.
const (
	writeWithin = 30 * time.Second
	writeSlack  = time.Second
)

// conns bounds the open connections of a listener. When all are taken, a new one
// takes the place of the one that has waited for longest without a request under
// way. It is refused only if there is none: so clients that merely hold
// connections block no new ones.
type conns struct {
	net.Listener
	max  int  // 0: no bound
	busy bool // what goes on in a connection is not known, so none counts as idle

	mu      sync.Mutex // guards what follows, and conn.at
	open    int
	idle    list.List // of *conn without a request, longest first
	refused uint64
	evicted uint64
}

type conn struct {
	net.Conn
	owner       *conns
	at          *list.Element // in idle; nil: a request is under way
	done        sync.Once
	hasDeadline atomic.Bool  // the handler sets deadlines for its writes
	until       atomic.Int64 // the deadline of writes that is set here, in unix nanoseconds; 0: none
}

func (l *conns) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, owner: l}
		admitted, victim := l.admit(c)
		if victim != nil {
			_ = victim.Close()
		}
		if admitted {
			return c, nil
		}
		_ = raw.Close()
	}
}

// admit makes room for c, if need be by closing the victim.
func (l *conns) admit(c *conn) (ok bool, victim *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max > 0 && l.open >= l.max {
		longest := l.idle.Front()
		if longest == nil {
			l.refused++
			return false, nil
		}
		victim = longest.Value.(*conn)
		l.setIdle(victim, false)
		l.evicted++
	}
	l.open++
	l.setIdle(c, !l.busy)
	return true, victim
}

// setIdle notes whether a connection is idle. The caller holds mu.
func (l *conns) setIdle(c *conn, idle bool) {
	switch {
	case idle && c.at == nil:
		c.at = l.idle.PushBack(c)
	case !idle && c.at != nil:
		l.idle.Remove(c.at)
		c.at = nil
	}
}

// changed follows the states of connections; it is an http.Server's ConnState.
func (l *conns) changed(nc net.Conn, state http.ConnState) {
	c := unwrapConn(nc)
	if c == nil || state == http.StateNew || state == http.StateClosed {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setIdle(c, state == http.StateIdle)
}

// unwrapConn is our connection below those of TLS.
func unwrapConn(nc net.Conn) *conn {
	for {
		switch c := nc.(type) {
		case *conn:
			return c
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	if until := time.Now().Add(writeWithin); !c.hasDeadline.Load() &&
		until.UnixNano()-c.until.Load() >= int64(writeSlack) {
		c.until.Store(until.UnixNano())
		// An error means that the connection is gone, which the write says too.
		_ = c.Conn.SetWriteDeadline(until)
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline implements net.Conn. The server takes the deadline of each request back
// when it has answered it; one that is set here may stay.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() && !c.hasDeadline.Load() {
		return nil
	}
	c.hasDeadline.Store(!t.IsZero())
	c.until.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn. The server calls it for who takes the connection over.
func (c *conn) SetDeadline(t time.Time) error {
	c.hasDeadline.Store(!t.IsZero())
	c.until.Store(0)
	return c.Conn.SetDeadline(t)
}

func (c *conn) Close() error {
	c.done.Do(func() {
		c.owner.mu.Lock()
		defer c.owner.mu.Unlock()
		c.owner.open--
		c.owner.setIdle(c, false)
	})
	return c.Conn.Close()
}
