package redisstore

import (
	"context"
	"fmt"
	"net"
	"time"
)

// dialFunc makes a connection.
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer gives a connection also when the dial fails: one on which every use
// fails with the dial's error. The caller gets the same error as otherwise, but
// the pool of go-redis does not count it. It would, after as many failures as
// it has places, refuse to dial at all and try again once a second in the
// background, so that a server that is back is found a second late; and it
// would write a line to standard error for each. Connections that were made are
// looked after by the watchdog.
func (d *watchdog) dialer(base dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := base(ctx, network, addr)
		if err != nil {
			return deadConn{err: fmt.Errorf("dial %s: %w", addr, err), addr: addr}, nil
		}
		return d.add(conn, addr), nil
	}
}

// deadConn is a connection that was never made.
type deadConn struct {
	err  error
	addr string
}

func (c deadConn) Read([]byte) (int, error)         { return 0, c.err }
func (c deadConn) Write([]byte) (int, error)        { return 0, c.err }
func (c deadConn) Close() error                     { return nil }
func (c deadConn) LocalAddr() net.Addr              { return deadAddr(c.addr) }
func (c deadConn) RemoteAddr() net.Addr             { return deadAddr(c.addr) }
func (c deadConn) SetDeadline(time.Time) error      { return nil }
func (c deadConn) SetReadDeadline(time.Time) error  { return nil }
func (c deadConn) SetWriteDeadline(time.Time) error { return nil }

// deadAddr is an address that was not reached.
type deadAddr string

func (a deadAddr) Network() string { return "tcp" }
func (a deadAddr) String() string  { return string(a) }
