package statsd

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// link is a connected datagram socket that is opened when it is needed, resolved again from time to time and opened
// again after an error. It is connected because the kernel then reports if no socket listens.
//
// Only the first resolution delays the sending. Later ones run beside it, because a name server that hangs must not
// cost the counts of a server that works.
//
// A link is not safe for concurrent use, except for the counters.
type link struct {
	addr    address
	connect dial
	resolve time.Duration

	conn      net.Conn  // nil if not open
	id        string    // of conn, in heartbeats
	lines     uint64    // written to conn
	resolveAt time.Time // when a resolved name is resolved again
	resolving *dialing  // the resolution in progress, or nil

	err     error     // of the last attempt to open
	retryAt time.Time // earliest time of the next attempt

	errors, refused atomic.Uint64
}

// dial is the type of net.Dialer.DialContext, or of the caller's function.
type dial = func(ctx context.Context, network, address string) (net.Conn, error)

type dialing struct {
	done   chan struct{} // closed when conn and err are set
	cancel context.CancelFunc
	conn   net.Conn
	err    error
}

const (
	// retryAfter is the interval between attempts to open, which may wait for a name server.
	retryAfter = time.Second
	// resolveTimeout bounds a resolution in the background.
	resolveTimeout = 5 * time.Second
)

func newLink(a address, cfg SenderConfig) *link {
	return &link{addr: a, connect: cfg.Dial, resolve: cfg.Resolve}
}

// open ensures that there is a socket. A name that no longer resolves keeps its last address.
func (l *link) open(ctx context.Context) error {
	if l.conn != nil {
		l.renewAddress()
		return nil
	}
	if time.Now().Before(l.retryAt) {
		return l.err
	}
	conn, err := l.dial(ctx)
	// The duration of the attempt is not part of the pause.
	now := time.Now()
	if err != nil {
		l.errors.Add(1)
		l.err, l.retryAt = err, now.Add(retryAfter)
		return err
	}
	l.resolveAt = now.Add(l.resolve)
	l.setConn(conn)
	return nil
}

func (l *link) dial(ctx context.Context) (net.Conn, error) {
	return l.connect(ctx, l.addr.network, l.addr.addr)
}

// renewAddress starts to resolve a name again when it is time, and adopts the result when it is there. It does not
// wait.
func (l *link) renewAddress() {
	switch {
	case l.resolving != nil:
		select {
		case <-l.resolving.done:
			l.applyResolution(l.resolving)
			l.resolving = nil
		default:
		}
	case l.addr.isName && !time.Now().Before(l.resolveAt):
		ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
		d := &dialing{done: make(chan struct{}), cancel: cancel}
		go func() { // close waits for it
			defer close(d.done)
			d.conn, d.err = l.dial(ctx)
		}()
		l.resolving = d
	}
}

// applyResolution replaces the socket if the name has another address now.
func (l *link) applyResolution(d *dialing) {
	d.cancel()
	l.resolveAt = time.Now().Add(l.resolve)
	switch {
	case d.err != nil:
		l.errors.Add(1)
	case d.conn.RemoteAddr().String() == l.conn.RemoteAddr().String():
		_ = d.conn.Close() // the old one may hold datagrams that are not sent yet
	default:
		_ = l.conn.Close()
		l.setConn(d.conn)
	}
}

// setConn sets a new socket, with a new id, because the receiver does not know it yet.
func (l *link) setConn(conn net.Conn) { l.conn, l.id, l.lines = conn, rand.Text(), 0 }

// write sends one datagram before the deadline of ctx. The refusal of an earlier datagram is not returned as its error.
func (l *link) write(ctx context.Context, b []byte) error {
	err := l.writeOnce(ctx, b)
	if errors.Is(err, syscall.ECONNREFUSED) {
		l.recordRefusal()
		err = l.writeOnce(ctx, b)
	}
	if err != nil {
		l.errors.Add(1)
		if !isTimeout(err) {
			l.closeConn()
		}
	}
	return err
}

// recordRefusal records that no server listens.
func (l *link) recordRefusal() {
	l.refused.Add(1)
	if l.addr.network == "unixgram" { // the server has a new socket there
		l.closeConn()
		return
	}
	// A server that moved has another address now.
	if soon := time.Now().Add(retryAfter); soon.Before(l.resolveAt) {
		l.resolveAt = soon
	}
}

func (l *link) writeOnce(ctx context.Context, b []byte) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	if err := l.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err := l.conn.Write(b)
	return err
}

// closeConn closes the socket; the next write opens another.
func (l *link) closeConn() {
	if l.conn != nil {
		_ = l.conn.Close() // datagrams: a close has nothing left to send
		l.conn = nil
	}
}

// close closes the socket and ends a resolution in progress.
func (l *link) close() {
	if l.resolving != nil {
		l.resolving.cancel()
		<-l.resolving.done
		if l.resolving.conn != nil {
			_ = l.resolving.conn.Close()
		}
		l.resolving = nil
	}
	l.closeConn()
}
