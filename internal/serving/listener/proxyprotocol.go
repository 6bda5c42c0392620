package listener

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"
)

// headerWithin bounds the wait for a header where the listener has no bound of its own.
const headerWithin = 10 * time.Second

// proxyHeaders reads the header of the PROXY protocol from the connections of trusted
// proxies, whose RemoteAddr is then the client that it names. A trusted proxy has to send one:
// were it left out, the client could write it. Others are not asked for one, so that theirs is
// only an odd request.
//
// The header is read by the first call that needs it, in the goroutine of the connection:
// Accept does not wait for a slow peer.
type proxyHeaders struct {
	net.Listener
	from    func(netip.Addr) bool
	within  time.Duration
	missing atomic.Uint64
}

// Accept implements net.Listener.
func (l *proxyHeaders) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil || !l.from(addressOf(raw)) {
		return raw, err
	}
	within := l.within
	if within <= 0 {
		within = headerWithin
	}
	return &headedConn{
		Conn: proxyproto.NewConn(raw, proxyproto.WithPolicy(proxyproto.REQUIRE),
			proxyproto.SetReadHeaderTimeout(within)),
		owner: l,
	}, nil
}

// headedConn is a connection that begins with a header.
type headedConn struct {
	*proxyproto.Conn
	owner *proxyHeaders
	begun bool // something was read; one goroutine reads at a time
}

// Read implements net.Conn. It counts a connection whose header is missing.
func (c *headedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.begun {
		c.begun = true
		if err != nil && c.ProxyHeader() == nil {
			c.owner.missing.Add(1)
		}
	}
	return n, err
}

// addressOf is the address of a peer, invalid for a unix socket.
func addressOf(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}
