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

// framedConn follows the frames of HTTP/2 in both directions, above TLS. It ends a connection that is flooded with
// control frames or with requests that are taken back, and accounts for the streams (see streams). Connections of other
// protocols pass. One goroutine reads at a time, and one writes.
type framedConn struct {
	net.Conn
	floods  *atomic.Uint64              // counts connections that were ended
	tls     func() *tls.ConnectionState // after the handshake; nil: no TLS
	begun   int                         // bytes of the preface that have come
	other   atomic.Bool                 // it is not HTTP/2
	in, out frames
	streams streams
	framing framing // of the next request of HTTP/1
	control budget  // frames that nothing excuses
	ended   bool    // for a flood
	// written is when something of HTTP/1 was last written after a read, in unix nanoseconds; 0: nothing was since.
	written atomic.Int64
}

func newFramedConn(below net.Conn, floods *atomic.Uint64, a *account) *framedConn {
	c := &framedConn{Conn: below, floods: floods, control: budget{since: time.Now()}}
	c.streams.follow(a)
	return c
}

// NetConn is the connection below.
func (c *framedConn) NetConn() net.Conn { return c.Conn }

func (c *framedConn) Read(p []byte) (int, error) {
	if c.ended { // TLS has more of what came before
		return 0, errFlood
	}
	if c.in.isBetween() {
		c.streams.awaitHandler()
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, c.awaitHangUp(len(p), err)
	}
	c.written.Store(0)
	if c.other.Load() {
		c.framing.scan(p[:n])
		return n, err
	}
	b := p[:n]
	if c.begun < len(preface) {
		same := min(len(b), len(preface)-c.begun)
		if !strings.HasPrefix(preface[c.begun:], string(b[:same])) {
			c.other.Store(true)
			c.framing.scan(b)
			return n, err
		}
		c.begun += same
		b = b[same:]
	}
	c.in.scan(b, func(f *frame) {
		if !c.streams.received(f) || !c.excuses(f) {
			c.control.n.Add(1)
		}
	})
	if c.control.isSpent() || c.streams.areFlooded() {
		c.ended = true
		c.floods.Add(1)
		_ = c.Close()
		return n, errFlood
	}
	if c.in.isBetween() {
		c.streams.enter()
	}
	return n, err
}

func (c *framedConn) Write(p []byte) (int, error) {
	if c.other.Load() {
		c.written.Store(time.Now().UnixNano())
	}
	n, err := c.Conn.Write(p)
	if !c.other.Load() {
		c.out.scan(p[:n], func(f *frame) {
			c.excuses(f)
			c.streams.sent(f)
		})
	}
	return n, err
}

func (c *framedConn) Close() error {
	c.streams.end()
	return c.Conn.Close()
}

// excuses reports whether a frame is of a request or an answer, which excuses control frames. Padding is neither.
func (c *framedConn) excuses(f *frame) bool {
	if f.kind != frameHeaders && (f.kind != frameData || f.data() == 0) {
		return false
	}
	c.control.giveBack(int64(controlExcused + f.data()/controlExcusedBytes))
	return true
}

// budget counts what may come controlBurst times, and controlRate times a second beyond.
type budget struct {
	n     atomic.Int64
	since time.Time // until when controlRate was taken off
}

// giveBack takes n off. What is counted meanwhile may be lost.
func (b *budget) giveBack(n int64) {
	if b.n.Add(-n) < 0 {
		b.n.Store(0)
	}
}

// isSpent reports whether more has come. One goroutine calls it at a time.
func (b *budget) isSpent() bool {
	if b.n.Load() <= controlBurst {
		return false
	}
	at := time.Now()
	over := b.n.Add(-int64(at.Sub(b.since).Seconds() * controlRate))
	if over < 0 {
		b.n.Store(0)
	}
	b.since = at
	return over > controlBurst
}
