package main

import (
	"context"
	"net"
	"sync"
)

// link is a wire to Redis that can break in the ways of real ones. Nothing on it
// is closed by a fault: waiting calls get no error.
type link struct {
	ln net.Listener
	to string

	mu    sync.Mutex // guards what follows
	mode  mode
	conns map[*wire]bool
	wait  sync.WaitGroup
}

// mode is what happens to bytes.
type mode int

const (
	whole  mode = iota
	deaf        // what Redis answers is lost
	hollow      // everything is lost
)

// wire is one connection. dead is for good: a wire that lost bytes has no use any
// more.
type wire struct {
	in, out net.Conn
	dead    mode // guarded by link.mu
}

func newLink(ctx context.Context, to string) (*link, error) {
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{ln: ln, to: to, conns: map[*wire]bool{}}
	l.wait.Go(func() { l.accept(ctx) })
	return l, nil
}

func (l *link) accept(ctx context.Context) {
	var dialer net.Dialer
	for {
		in, err := l.ln.Accept()
		if err != nil {
			return // closed
		}
		out, err := dialer.DialContext(ctx, "tcp", l.to)
		if err != nil {
			_ = in.Close() // refused
			continue
		}
		w := &wire{in: in, out: out}
		l.mu.Lock()
		w.dead = l.mode
		l.conns[w] = true
		l.mu.Unlock()
		l.wait.Go(func() { l.carry(w, w.out, w.in, hollow) })
		l.wait.Go(func() { l.carry(w, w.in, w.out, deaf) })
	}
}

// carry moves bytes one way, and loses them from the given mode on.
func (l *link) carry(w *wire, to, from net.Conn, lost mode) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			l.mu.Lock()
			delete(l.conns, w)
			l.mu.Unlock()
			_ = w.in.Close()
			_ = w.out.Close()
			return
		}
		l.mu.Lock()
		dead := w.dead >= lost
		l.mu.Unlock()
		if dead {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			_ = from.Close() // and the next read ends it
		}
	}
}

// set breaks the link for the connections there are, for good, and for new ones
// until it is set otherwise.
func (l *link) set(m mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = m
	for w := range l.conns {
		w.dead = max(w.dead, m)
	}
}

func (l *link) close() {
	_ = l.ln.Close()
	l.mu.Lock()
	for w := range l.conns {
		_ = w.in.Close()
		_ = w.out.Close()
	}
	l.mu.Unlock()
	l.wait.Wait()
}
