package statsd

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// link is a connected datagram socket that is opened when it is needed,
// resolved anew from time to time and opened anew after an error. Connected,
// because the kernel then tells that nobody listens.
//
// Not safe for concurrent use but for the counters.
type link struct {
	addr    address
	dialer  net.Dialer
	resolve time.Duration

	conn  net.Conn  // nil: not open
	until time.Time // when a resolved name is to be looked at again

	err   error     // of the last attempt to open
	retry time.Time // not before this

	errors, refused atomic.Uint64
}

// retryAfter spaces the attempts to open, each of which may wait for a name
// server.
const retryAfter = time.Second

func newLink(a address, cfg SenderConfig) *link {
	return &link{addr: a, dialer: net.Dialer{Resolver: cfg.Resolver}, resolve: cfg.Resolve}
}

// open makes sure that there is a socket. A name that no longer resolves keeps
// its last address.
func (l *link) open(ctx context.Context) error {
	now := time.Now()
	if l.conn != nil && (!l.addr.isName || now.Before(l.until)) {
		return nil
	}
	if l.conn == nil && now.Before(l.retry) {
		return l.err
	}
	conn, err := l.dialer.DialContext(ctx, l.addr.network, l.addr.addr)
	// The time that an attempt took is not part of the pause.
	now = time.Now()
	l.until = now.Add(l.resolve)
	if err != nil {
		l.errors.Add(1)
		if l.conn != nil {
			return nil
		}
		l.err, l.retry = err, now.Add(retryAfter)
		return err
	}
	_ = l.close()
	l.conn = conn
	return nil
}

// write sends one datagram before the deadline of ctx. The refusal of an
// earlier datagram does not count against this one.
func (l *link) write(ctx context.Context, b []byte) error {
	err := l.try(ctx, b)
	if errors.Is(err, syscall.ECONNREFUSED) {
		l.refused.Add(1)
		if l.addr.network == "unixgram" { // the server has a new socket there
			_ = l.close()
		}
		err = l.try(ctx, b)
	}
	if err != nil {
		l.errors.Add(1)
		if !isTimeout(err) {
			_ = l.close()
		}
	}
	return err
}

func (l *link) try(ctx context.Context, b []byte) error {
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

func (l *link) close() error {
	if l.conn == nil {
		return nil
	}
	err := l.conn.Close()
	l.conn = nil
	return err
}
