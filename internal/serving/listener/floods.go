package listener

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// Control frames of HTTP/2, such as PING and SETTINGS, cost work and carry no request. net/http and gRPC answer as many
// as come.
const (
	controlBurst = 1000
	controlRate  = 10 // a second, beyond those that a frame of a request or an answer excuses
	// controlExcused are those that come with one frame: clients measure the connection by a PING for each answer, and
	// grant more room for what they read.
	controlExcused      = 10
	controlExcusedBytes = 256 // and one more for each of these
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

var errFlood = errors.New("listener: too many control frames without a request")

// framedConn follows the frames of HTTP/2 in both directions, above TLS, and ends a connection that is flooded with
// control frames. Connections of other protocols pass. One goroutine reads at a time, and one writes.
type framedConn struct {
	net.Conn
	floods  *atomic.Uint64              // counts connections that were ended
	tls     func() *tls.ConnectionState // after the handshake; nil: no TLS
	begun   int                         // bytes of the preface that have come
	other   atomic.Bool                 // it is not HTTP/2
	in, out frames
	control atomic.Int64 // frames that nothing excuses
	since   time.Time    // until when controlRate was taken off
	ended   bool         // for a flood
}

// NetConn is the connection below.
func (c *framedConn) NetConn() net.Conn { return c.Conn }

func (c *framedConn) Read(p []byte) (int, error) {
	if c.ended { // TLS has more of what came before
		return 0, errFlood
	}
	n, err := c.Conn.Read(p)
	if c.other.Load() || n == 0 {
		return n, err
	}
	b := p[:n]
	if c.begun < len(preface) {
		same := min(len(b), len(preface)-c.begun)
		if !strings.HasPrefix(preface[c.begun:], string(b[:same])) {
			c.other.Store(true)
			return n, err
		}
		c.begun += same
		b = b[same:]
	}
	c.in.scan(b, func(kind byte, size int) {
		if !c.excuses(kind, size) {
			c.control.Add(1)
		}
	})
	if c.flooded() {
		c.ended = true
		c.floods.Add(1)
		_ = c.Close()
		return n, errFlood
	}
	return n, err
}

func (c *framedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if !c.other.Load() {
		c.out.scan(p[:n], func(kind byte, size int) { c.excuses(kind, size) })
	}
	return n, err
}

// excuses reports whether a frame is of a request or an answer, which excuses control frames.
func (c *framedConn) excuses(kind byte, size int) bool {
	const data, headers = 0, 1
	if kind != headers && (kind != data || size == 0) {
		return false
	}
	if c.control.Add(-int64(controlExcused+size/controlExcusedBytes)) < 0 {
		c.control.Store(0) // a frame that is counted meanwhile may be lost
	}
	return true
}

func (c *framedConn) flooded() bool {
	if c.control.Load() <= controlBurst {
		return false
	}
	at := time.Now()
	over := c.control.Add(-int64(at.Sub(c.since).Seconds() * controlRate))
	if over < 0 {
		c.control.Store(0)
	}
	c.since = at
	return over > controlBurst
}

// frames finds the headers of frames in a stream of bytes.
type frames struct {
	head [9]byte
	have int // bytes of head
	skip int // bytes of the payload that are to come
}

// scan calls f with the type of each frame that begins in p and the size of its payload.
func (f *frames) scan(p []byte, frame func(kind byte, size int)) {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			f.skip -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.have:], p)
		p = p[n:]
		if f.have += n; f.have == len(f.head) {
			f.have = 0
			f.skip = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			frame(f.head[3], f.skip)
		}
	}
}
