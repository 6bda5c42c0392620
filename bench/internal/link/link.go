// Package link is a connection to a server on loopback that can be slow, and can break as real connections do.
package link

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Link takes connections and carries their bytes to a server and back. A fault closes no connection, so waiting calls
// get no error. Close it.
type Link struct {
	ln     net.Listener
	to     string
	cancel context.CancelFunc // ends connecting

	mu      sync.Mutex // guards the fields below
	mode    Mode
	slow    time.Duration
	changed chan struct{} // closed when slow changes
	wires   map[*wire]bool
	closed  bool
	wait    sync.WaitGroup
}

// Mode describes the bytes that are lost.
type Mode int

// The modes of a link.
const (
	Whole  Mode = iota
	Deaf        // answers of the server are lost
	Hollow      // everything is lost
)

// wire is one connection. dead is final, because a wire that lost bytes is useless.
type wire struct {
	in, out net.Conn
	dead    Mode // guarded by Link.mu
}

// answer is bytes from the server.
type answer struct {
	came  time.Time
	bytes []byte
}

// waiting is the number of answers of a connection that may wait for their time. The server waits behind them.
const waiting = 1024

// New opens a link to a server, which need not listen yet. New connections end with ctx.
func New(ctx context.Context, to string) (*Link, error) {
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &Link{ln: ln, to: to, cancel: cancel, changed: make(chan struct{}), wires: map[*wire]bool{}}
	l.wait.Go(func() { l.accept(ctx) })
	return l, nil
}

// Addr returns the address that clients connect to.
func (l *Link) Addr() string { return l.ln.Addr().String() }

func (l *Link) accept(ctx context.Context) {
	for {
		in, err := l.ln.Accept()
		if err != nil {
			return // the link is closed
		}
		l.wait.Go(func() { l.connect(ctx, in) })
	}
}

// connect connects to the server, beside other connections, because it takes a second if the server's queue is full.
func (l *Link) connect(ctx context.Context, in net.Conn) {
	var dialer net.Dialer
	out, err := dialer.DialContext(ctx, "tcp", l.to)
	if err != nil {
		_ = in.Close() // refuses the connection
		return
	}
	l.join(&wire{in: in, out: out})
}

// join starts what carries the bytes of a connection.
func (l *Link) join(w *wire) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = w.in.Close()
		_ = w.out.Close()
		return
	}
	w.dead = l.mode
	l.wires[w] = true
	answers := make(chan answer, waiting)
	l.wait.Go(func() {
		defer l.end(w)
		l.carry(w, w.in, Hollow, func(b []byte) {
			if _, err := w.out.Write(b); err != nil {
				_ = w.in.Close() // ends the next read
			}
		})
	})
	l.wait.Go(func() {
		defer close(answers)
		l.carry(w, w.out, Deaf, func(b []byte) { answers <- answer{time.Now(), bytes.Clone(b)} })
	})
	l.wait.Go(func() {
		defer l.end(w)
		l.deliver(w, answers)
	})
}

// carry moves bytes one way until the connection ends, and loses them from the mode lost on.
func (l *Link) carry(w *wire, from net.Conn, lost Mode, pass func([]byte)) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		l.mu.Lock()
		dead := w.dead >= lost
		l.mu.Unlock()
		if !dead {
			pass(buf[:n])
		}
	}
}

// deliver writes each answer when its time has come.
func (l *Link) deliver(w *wire, answers <-chan answer) {
	for a := range answers {
		l.delay(a.came)
		if _, err := w.in.Write(a.bytes); err != nil {
			_ = w.out.Close() // ends the next read, and the answers with it
		}
	}
}

// delay waits until an answer that came at a time may go on. A change of the delay holds for answers that wait, too.
func (l *Link) delay(came time.Time) {
	for {
		l.mu.Lock()
		slow, changed := l.slow, l.changed
		l.mu.Unlock()
		left := time.Until(came.Add(slow))
		if left <= 0 {
			return
		}
		select {
		case <-time.After(left):
		case <-changed:
		}
	}
}

func (l *Link) end(w *wire) {
	l.mu.Lock()
	delete(l.wires, w)
	l.mu.Unlock()
	_ = w.in.Close()
	_ = w.out.Close()
}

// Set breaks the link: for the present connections finally, and for new connections until the mode is set again.
func (l *Link) Set(m Mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = m
	for w := range l.wires {
		w.dead = max(w.dead, m)
	}
}

// Slow lets each answer come d later, on present and new connections. Zero ends that.
func (l *Link) Slow(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = d
	close(l.changed)
	l.changed = make(chan struct{})
}

// Close ends the link and its connections.
func (l *Link) Close() {
	_ = l.ln.Close()
	l.cancel()
	l.Slow(0) // nothing waits any longer
	l.mu.Lock()
	l.closed = true
	for w := range l.wires {
		_ = w.in.Close()
		_ = w.out.Close()
	}
	l.mu.Unlock()
	l.wait.Wait()
}
