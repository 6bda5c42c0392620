package redisstore

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// lines are a client's connections. They are here for what a pool cannot know: a
// firewall that forgot them, or a failover of an address, kills all at once and
// tells nobody. Each would then cost a call its whole time, one call after the
// other, and with a breaker before it a fraction of a second each.
//
// So when a question was not answered in time, the idle connections to the same
// server that have not heard from it since the question are closed too, and the
// next call dials. Where the server is only slow, that is a few dials more; none
// where others get their answers.
type lines struct {
	born time.Time

	mu  sync.Mutex // guards all
	all map[*line]struct{}
}

func newLines() *lines { return &lines{born: time.Now(), all: map[*line]struct{}{}} }

// line is one connection. It may be used like any net.Conn, and closed twice.
type line struct {
	net.Conn
	of   *lines
	addr string

	asked, heard atomic.Int64 // when, in nanoseconds since of.born; asked is of the first write after an answer
	waiting      atomic.Bool  // something was asked and nothing heard since
	reading      atomic.Bool
	closed       atomic.Bool
}

// add begins to look after a connection.
func (ls *lines) add(conn net.Conn, addr string) *line {
	l := &line{Conn: conn, of: ls, addr: addr}
	l.heard.Store(int64(time.Since(ls.born)))
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.all[l] = struct{}{}
	return l
}

// Write notes that an answer is due.
func (l *line) Write(p []byte) (int, error) {
	if !l.waiting.Load() {
		l.asked.Store(int64(time.Since(l.of.born)))
		l.waiting.Store(true)
	}
	return l.Conn.Write(p)
}

// Read notes that the server speaks, or that it does not.
func (l *line) Read(p []byte) (int, error) {
	l.reading.Store(true)
	n, err := l.Conn.Read(p)
	l.reading.Store(false)
	if n > 0 {
		l.heard.Store(int64(time.Since(l.of.born)))
		l.waiting.Store(false)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && l.waiting.Load() {
		l.of.suspect(l)
	}
	return n, err
}

// suspect closes the idle lines to where l waited in vain. One that is being taken
// from the pool at this moment fails its call at once instead of in vain.
func (ls *lines) suspect(l *line) {
	since := l.asked.Load()
	ls.mu.Lock()
	var silent []*line
	for other := range ls.all {
		if other != l && other.addr == l.addr && !other.waiting.Load() && !other.reading.Load() && other.heard.Load() < since {
			silent = append(silent, other)
		}
	}
	ls.mu.Unlock()
	for _, other := range silent {
		other.drop()
	}
}

// Close ends the connection.
func (l *line) Close() error {
	if !l.forget() {
		return nil // dropped before: no error to anybody
	}
	return l.Conn.Close()
}

// drop closes a line that nobody uses; under TLS without the farewell, which would
// have to be written.
func (l *line) drop() {
	if !l.forget() {
		return
	}
	conn := l.Conn
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = inner.NetConn()
	}
	_ = conn.Close() // nobody waits for it
}

// forget ends looking after a line, once.
func (l *line) forget() bool {
	if l.closed.Swap(true) {
		return false
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	delete(l.of.all, l)
	return true
}

// SyscallConn is how the pool looks whether an idle connection is still good. One
// that was closed here is not; what TLS hides is taken to be.
func (l *line) SyscallConn() (syscall.RawConn, error) {
	if l.closed.Load() {
		return nil, net.ErrClosed
	}
	if direct, ok := l.Conn.(syscall.Conn); ok {
		return direct.SyscallConn()
	}
	return opaque{}, nil
}

// opaque is a connection that cannot be looked into.
type opaque struct{}

func (opaque) Control(func(uintptr)) error    { return nil }
func (opaque) Read(func(uintptr) bool) error  { return nil }
func (opaque) Write(func(uintptr) bool) error { return nil }
