package gateways

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/test/internal/program"
)

// link is the network between a gateway and the limiter. It delays the limiter's responses by delay.
type link struct {
	addr, to string // where the gateway asks, and the socket of the limiter
	delay    atomic.Int64
	ln       net.Listener
}

// startLink carries connections to the unix socket to.
func startLink(t *testing.T, to string) *link {
	t.Helper()
	l := &link{addr: "127.0.0.1:0", to: to}
	l.listen(t)
	l.addr = l.ln.Addr().String()
	t.Cleanup(l.cut)
	return l
}

// listen takes connections until cut.
func (l *link) listen(t *testing.T) {
	t.Helper()
	program.Await(t, time.Minute, "the port of the link", func() (ok bool) {
		var err error
		l.ln, err = net.Listen("tcp", l.addr)
		return err == nil
	})
	ln := l.ln
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go l.carry(conn)
		}
	}()
}

// cut refuses new connections.
func (l *link) cut() { _ = l.ln.Close() }

// takes sets the delay of answers from now on.
func (l *link) takes(d time.Duration) { l.delay.Store(int64(d)) }

func (l *link) carry(gateway net.Conn) {
	defer gateway.Close()
	limiter, err := net.Dial("unix", l.to)
	if err != nil {
		return // as if there were no listener
	}
	defer limiter.Close()
	go func() {
		_, _ = io.Copy(limiter, gateway)
		_ = limiter.Close()
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := limiter.Read(b)
		if d := time.Duration(l.delay.Load()); d > 0 {
			time.Sleep(d) // the delay is the purpose of the link
		}
		if _, werr := gateway.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}
