package listener

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// writeWithin is how long a client may take to make room for data that is written to it. It holds for each write, so a
// long response that is read slowly goes on. A write may have up to writeSlack less, because setting a deadline costs
// as much as deciding about a request, and is not repeated before that.
const (
	writeWithin = 30 * time.Second
	writeSlack  = time.Second
)

// conns bounds the open connections of a listener. When all are taken, a new connection takes the place of the one that
// has been idle for longest, and is rejected only if no connection is idle. So clients that merely hold connections
// block no new ones.
//
// One client, an address or a /64 of IPv6, has a share of them. Beyond it, the client's next connection takes the place
// of its own longest idle one.
type conns struct {
	net.Listener
	max       int                   // 0 for no bound
	perClient int                   // 0 for no bound
	trusted   func(netip.Addr) bool // peers that speak for many clients
	busy      bool                  // the activity of connections is unknown, so none counts as idle

	mu       sync.Mutex // guards the fields below, and conn.idleElement and conn.closed
	open     int
	clients  map[netip.Prefix]*client // with open connections, except trusted peers
	idle     list.List                // of *conn without a request, longest first
	rejected uint64
	evicted  uint64
}

// client holds the connections and the memory of one client.
type client struct {
	network netip.Prefix
	open    int
	headers atomic.Int64 // bytes of the headers of its HTTP/2 requests under way
	held    atomic.Int64 // the same, and the requests
}

type conn struct {
	net.Conn
	owner       *conns
	client      *client       // nil for a trusted peer or a unix socket
	idleElement *list.Element // in idle; nil while a request is under way
	closed      bool          // states that the server reports later change nothing
	hasDeadline atomic.Bool   // the handler sets deadlines for its writes
	// The deadline of writes that is set here, in unix nanoseconds; 0 if there is none.
	until atomic.Int64
}

func (l *conns) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, owner: l}
		added, victim := l.add(c)
		if victim != nil {
			_ = victim.Close()
		}
		if added {
			return c, nil
		}
		_ = raw.Close()
	}
}

// add makes room for c, by releasing the victim if needed. The caller closes the victim.
func (l *conns) add(c *conn) (ok bool, victim *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.client = l.clientOf(c)
	switch {
	case c.client != nil && l.perClient > 0 && c.client.open >= l.perClient:
		victim = l.longestIdle(c.client)
	case l.max > 0 && l.open >= l.max:
		victim = l.longestIdle(nil)
	default:
		l.countConn(c)
		return true, nil
	}
	if victim == nil {
		l.rejected++
		return false, nil
	}
	l.evicted++
	l.release(victim)
	l.countConn(c)
	return true, victim
}

// clientOf returns the client for which a connection counts, or nil if it counts for none. The caller holds mu.
func (l *conns) clientOf(c *conn) *client {
	if _, trusted := c.Conn.(*headedConn); trusted {
		return nil // reading its address would wait for the header
	}
	a := addressOf(c.Conn)
	if !a.IsValid() || l.trusted != nil && l.trusted(a) {
		return nil
	}
	a = hottype.ClientFromAddr(a).Addr
	network := netip.PrefixFrom(a, min(a.BitLen(), 64))
	if l.clients[network] == nil {
		return &client{network: network}
	}
	return l.clients[network]
}

// longestIdle returns the connection of a client, or of any if of is nil, that has been idle for longest, or nil if
// none is idle. The caller holds mu.
func (l *conns) longestIdle(of *client) *conn {
	for e := l.idle.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); of == nil || c.client == of {
			return c
		}
	}
	return nil
}

// countConn counts a connection. The caller holds mu.
func (l *conns) countConn(c *conn) {
	l.open++
	l.setIdle(c, !l.busy)
	if c.client == nil {
		return
	}
	if c.client.open++; c.client.open == 1 {
		if l.clients == nil {
			l.clients = map[netip.Prefix]*client{}
		}
		l.clients[c.client.network] = c.client
	}
}

// release records the end of a connection. It does nothing if the connection was evicted before. The caller holds mu.
func (l *conns) release(c *conn) {
	if c.closed {
		return
	}
	l.setIdle(c, false)
	c.closed = true
	l.open--
	if c.client == nil {
		return
	}
	if c.client.open--; c.client.open == 0 {
		delete(l.clients, c.client.network)
	}
}

// setIdle records whether a connection is idle. The caller holds mu.
func (l *conns) setIdle(c *conn, idle bool) {
	switch {
	case idle && c.idleElement == nil && !c.closed:
		c.idleElement = l.idle.PushBack(c)
	case !idle && c.idleElement != nil:
		l.idle.Remove(c.idleElement)
		c.idleElement = nil
	}
}

// recordState follows the states of connections. It is an http.Server's ConnState.
func (l *conns) recordState(nc net.Conn, state http.ConnState) {
	c := unwrapConn(nc)
	if c == nil || state == http.StateNew || state == http.StateClosed {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setIdle(c, state == http.StateIdle)
}

// unwrapConn returns this package's connection below TLS, or nil if there is none.
func unwrapConn(nc net.Conn) *conn {
	for {
		switch c := nc.(type) {
		case *conn:
			return c
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	if until := time.Now().Add(writeWithin); !c.hasDeadline.Load() &&
		until.UnixNano()-c.until.Load() >= int64(writeSlack) {
		c.until.Store(until.UnixNano())
		// An error means that the connection is gone, which the write reports too.
		_ = c.Conn.SetWriteDeadline(until)
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline implements net.Conn. The server removes the deadline of each request after the response, but a
// deadline that is set here may stay.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() && !c.hasDeadline.Load() {
		return nil
	}
	c.hasDeadline.Store(!t.IsZero())
	c.until.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn. The server calls it for a handler that takes the connection over.
func (c *conn) SetDeadline(t time.Time) error {
	c.hasDeadline.Store(!t.IsZero())
	c.until.Store(0)
	return c.Conn.SetDeadline(t)
}

func (c *conn) Close() error {
	c.owner.mu.Lock()
	c.owner.release(c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
