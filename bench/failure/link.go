package main

import (
	"context"
	"net"
	"sync"
)

// link is a connection to Redis that can break as real connections do. A fault closes nothing on it, so waiting calls
// get no error.
type link struct {
	ln net.Listener
	to string

	mu    sync.Mutex // guards the fields below
	mode  mode
	conns map[*wire]bool
	wait  sync.WaitGroup
}

// mode describes the bytes that are lost.
type mode int

const (
	whole  mode = iota
	deaf        // responses of Redis are lost
	hollow      // everything is lost
)

// wire is one connection. dead is final, because a wire that lost bytes is useless.
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
			return // the link is closed
		}
		out, err := dialer.DialContext(ctx, "tcp", l.to)
		if err != nil {
			_ = in.Close() // refuses the connection
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

// carry moves bytes one way, and loses them from the mode lost on.
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
			_ = from.Close() // ends the next read
		}
	}
}

// set breaks the link: for the present connections finally, and for new connections until the mode is set again.
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
