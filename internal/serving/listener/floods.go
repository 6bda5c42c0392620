package listener

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// Control frames of HTTP/2, such as PING and SETTINGS, cost work and carry no request. net/http and gRPC answer any
// number of them. Every received frame counts as one but HEADERS and DATA with content. CONTINUATION counts too,
// because a client can send any number of them, even empty ones, after one HEADERS.
const (
	controlBurst = 1000
	controlRate  = 10 // a second, beyond those excused by frames of requests and responses
	// controlExcused is the number of control frames that one such frame excuses: clients measure the connection by a
	// PING for each response, and grant more room for the data that they read.
	controlExcused      = 10
	controlExcusedBytes = 256 // and one more for each of these bytes
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// errFlood ends a connection that sent too many control frames, among which CONTINUATION counts, or that cancelled too
// many requests at once.
var errFlood = errors.New("listener: too many control frames without a request")

// framedConn follows the frames of HTTP/2 in both directions, above TLS. It ends a connection that is flooded with
// control frames or with requests that are taken back, and accounts for the streams (see streams). It leaves
// connections of other protocols alone. One goroutine reads at a time, and one writes.
type framedConn struct {
	net.Conn
	floods  *atomic.Uint64              // counts connections that were ended
	tls     func() *tls.ConnectionState // after the handshake; nil without TLS
	begun   int                         // received bytes of the preface
	other   atomic.Bool                 // it is not HTTP/2
	in, out frames
	streams streams
	framing framing // of the next request of HTTP/1
	control budget  // control frames that nothing excuses
	ended   bool    // for a flood
	// written is the time of the last write of HTTP/1 after a read, in unix nanoseconds, or 0 if there was no write
	// since.
	written atomic.Int64
}

func newFramedConn(below net.Conn, floods *atomic.Uint64, a *account) *framedConn {
	c := &framedConn{Conn: below, floods: floods, control: budget{since: time.Now()}}
	c.streams.startFollowing(a)
	return c
}

// NetConn returns the connection below.
func (c *framedConn) NetConn() net.Conn { return c.Conn }

func (c *framedConn) Read(p []byte) (int, error) {
	if c.ended { // TLS still has bytes that came before
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
		c.framing.scanHeader(p[:n])
		return n, err
	}
	b := p[:n]
	if c.begun < len(preface) {
		same := min(len(b), len(preface)-c.begun)
		if !strings.HasPrefix(preface[c.begun:], string(b[:same])) {
			c.other.Store(true)
			c.framing.scanHeader(b)
			return n, err
		}
		c.begun += same
		b = b[same:]
	}
	c.in.scanFrames(b, func(f *frame) {
		if !c.streams.followReceived(f) || !c.excusesControl(f) {
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
		c.streams.acquirePlace()
	}
	return n, err
}

func (c *framedConn) Write(p []byte) (int, error) {
	if c.other.Load() {
		c.written.Store(time.Now().UnixNano())
	}
	n, err := c.Conn.Write(p)
	if !c.other.Load() {
		c.out.scanFrames(p[:n], func(f *frame) {
			c.excusesControl(f)
			c.streams.followSent(f)
		})
	}
	return n, err
}

func (c *framedConn) Close() error {
	c.streams.closeAll()
	return c.Conn.Close()
}

// excusesControl reports whether a frame belongs to a request or a response, and if so returns some control frames to
// the budget. Padding does not count.
func (c *framedConn) excusesControl(f *frame) bool {
	if f.kind != frameHeaders && (f.kind != frameData || f.dataSize() == 0) {
		return false
	}
	c.control.giveBack(int64(controlExcused + f.dataSize()/controlExcusedBytes))
	return true
}

// budget counts events that may occur controlBurst times, and beyond that controlRate times a second.
type budget struct {
	n     atomic.Int64
	since time.Time // the time until which controlRate was subtracted
}

// giveBack subtracts n. Events that are counted meanwhile may be lost.
func (b *budget) giveBack(n int64) {
	if b.n.Add(-n) < 0 {
		b.n.Store(0)
	}
}

// isSpent reports whether more events occurred. One goroutine calls it at a time.
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
