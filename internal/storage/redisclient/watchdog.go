package redisclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// watchdog watches a client's connections for failures that a pool cannot detect: a firewall that dropped them, or a
// failover of an address, ends all at once without a message. Each connection would then cost a call its whole timeout,
// one call after the other, and with a breaker before it a fraction of a second each.
//
// So when a command was not answered in time, the watchdog also closes the idle connections to the same server that
// have received nothing since, and the next call dials. If the server is only slow, that costs a few more dials; it
// costs none if other calls are answered.
type watchdog struct {
	born time.Time

	mu  sync.Mutex // guards all
	all map[*watchedConn]struct{}
}

func newWatchdog() *watchdog { return &watchdog{born: time.Now(), all: map[*watchedConn]struct{}{}} }

// watchedConn is one connection. It may be used like any net.Conn, and closed twice.
type watchedConn struct {
	net.Conn
	watchdog *watchdog
	addr     string

	asked, heard atomic.Int64 // nanoseconds since watchdog.born; asked is the time of the first write after a reply
	waiting      atomic.Bool  // something was asked and nothing received since
	reading      atomic.Bool
	answered     atomic.Bool // Redis has ever answered
	closed       atomic.Bool
}

func (d *watchdog) add(conn net.Conn, addr string) *watchedConn {
	w := &watchedConn{Conn: conn, watchdog: d, addr: addr}
	w.heard.Store(int64(time.Since(d.born)))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[w] = struct{}{}
	return w
}

// tlsAlert is the first byte of the record by which a port with TLS refuses plain text. No reply of Redis begins with
// it.
const tlsAlert = 0x15

// Write records that a reply is due.
func (w *watchedConn) Write(p []byte) (int, error) {
	if !w.waiting.Load() {
		w.asked.Store(int64(time.Since(w.watchdog.born)))
		w.waiting.Store(true)
	}
	return w.Conn.Write(p)
}

// Read records that the server answers, or that it does not.
func (w *watchedConn) Read(p []byte) (int, error) {
	w.reading.Store(true)
	n, err := w.Conn.Read(p)
	w.reading.Store(false)
	if n > 0 {
		w.heard.Store(int64(time.Since(w.watchdog.born)))
		w.waiting.Store(false)
		if p[0] != tlsAlert {
			w.answered.Store(true)
		}
	}
	if err != nil && !w.answered.Load() && w.isPlain() {
		err = explainSilentEnd(err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && w.waiting.Load() {
		w.watchdog.closeSilent(w)
	}
	return n, err
}

// isPlain reports whether the connection is without TLS.
func (w *watchedConn) isPlain() bool {
	_, encrypted := w.Conn.(interface{ NetConn() net.Conn })
	return !encrypted
}

// closeSilent closes the idle connections to the server for which w waited in vain. A connection that is just being
// taken from the pool fails its call at once instead of after a timeout.
func (d *watchdog) closeSilent(w *watchedConn) {
	since := w.asked.Load()
	d.dropIf(func(other *watchedConn) bool {
		return other != w && other.addr == w.addr && !other.waiting.Load() && !other.reading.Load() &&
			other.heard.Load() < since
	})
}

func (d *watchdog) dropIf(unwanted func(*watchedConn) bool) {
	d.mu.Lock()
	all := slices.Collect(maps.Keys(d.all))
	d.mu.Unlock()
	for _, w := range all {
		if unwanted(w) {
			w.closeUnused()
		}
	}
}

func (w *watchedConn) Close() error {
	if !w.unregister() {
		return nil // dropped before: no caller gets an error
	}
	return w.Conn.Close()
}

// closeUnused closes an unused connection; under TLS without close_notify, which would have to be written.
func (w *watchedConn) closeUnused() {
	if !w.unregister() {
		return
	}
	conn := w.Conn
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = inner.NetConn()
	}
	_ = conn.Close() // no caller waits for it
}

// closeOthers closes the connections to other servers; calls in progress on them fail.
func (d *watchdog) closeOthers(addr string) {
	d.dropIf(func(w *watchedConn) bool { return w.addr != addr })
}

// unregister removes a connection from the watchdog, and reports whether it was the first call.
func (w *watchedConn) unregister() bool {
	if w.closed.Swap(true) {
		return false
	}
	w.watchdog.mu.Lock()
	defer w.watchdog.mu.Unlock()
	delete(w.watchdog.all, w)
	return true
}

// freshFor is how long a connection counts as good after it was read from, because a check costs a system call.
const freshFor = time.Millisecond

// SyscallConn returns the raw connection by which the pool checks whether an idle connection is still good. A
// connection that was closed here is not good; one that TLS hides counts as good.
func (w *watchedConn) SyscallConn() (syscall.RawConn, error) {
	if w.closed.Load() {
		return nil, net.ErrClosed
	}
	rests := time.Since(w.watchdog.born)-time.Duration(w.heard.Load()) >= freshFor
	if direct, ok := w.Conn.(syscall.Conn); ok && rests {
		return direct.SyscallConn()
	}
	return opaque{}, nil
}

// opaque is a raw connection that hides its state.
type opaque struct{}

func (opaque) Control(func(uintptr)) error    { return nil }
func (opaque) Read(func(uintptr) bool) error  { return nil }
func (opaque) Write(func(uintptr) bool) error { return nil }

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// watchedDialer returns a function that returns a connection even if the dial fails: every use of it then fails with
// the dial's error. The caller gets the same error as otherwise, but the pool of go-redis does not count it. After as
// many failures as it has places, the pool would refuse to dial at all and try again once a second in the background,
// so that a server that is back is found a second late; and it would write a line to standard error for each failure.
// The watchdog watches the connections that were made.
func (d *watchdog) watchedDialer(base dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := base(ctx, network, addr)
		if err != nil {
			return deadConn{err: uncutError(fmt.Errorf("dial %s: %w", addr, err)), addr: addr}, nil
		}
		return d.add(conn, addr), nil
	}
}

// deadConn is a connection that was never made.
type deadConn struct {
	err  error
	addr string
}

// SyscallConn keeps the pool from handing out a connection that is idle because the caller of its dial had given up: a
// later call would get the error of that time.
func (c deadConn) SyscallConn() (syscall.RawConn, error) { return nil, c.err }

func (c deadConn) Read([]byte) (int, error)         { return 0, c.err }
func (c deadConn) Write([]byte) (int, error)        { return 0, c.err }
func (c deadConn) Close() error                     { return nil }
func (c deadConn) LocalAddr() net.Addr              { return deadAddr(c.addr) }
func (c deadConn) RemoteAddr() net.Addr             { return deadAddr(c.addr) }
func (c deadConn) SetDeadline(time.Time) error      { return nil }
func (c deadConn) SetReadDeadline(time.Time) error  { return nil }
func (c deadConn) SetWriteDeadline(time.Time) error { return nil }

type deadAddr string

func (a deadAddr) Network() string { return "tcp" }
func (a deadAddr) String() string  { return string(a) }
