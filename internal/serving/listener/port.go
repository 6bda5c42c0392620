package listener

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/hotparam/pipeline/internal/serving/auth"
)

// Port is an open address with the bounds and the protection of its connections. As a net.Listener it returns
// connections above TLS. The handshake is part of the first read.
type Port struct {
	conns   *conns
	cert    *certificate  // nil without TLS
	headers *proxyHeaders // nil without PROXY protocol
	floods  atomic.Uint64
	memory  int64    // see memoryBound
	account *account // of HTTP/2 requests; nil if the server bounds them itself
}

// openPort opens the address of a configuration and reads its certificate.
func openPort(ctx context.Context, cfg Config) (*Port, error) {
	p := &Port{memory: cfg.memoryBound()}
	if cfg.TLS.On() {
		var err error
		if p.cert, err = newCertificate(cfg.Name, cfg.Name+".", cfg.TLS, cfg.Log); err != nil {
			return nil, err
		}
	}
	ln, err := listen(ctx, cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen: %w; choose another address with --%s.listen", cfg.Name, err,
			cfg.Name)
	}
	if cfg.wrap != nil {
		ln = cfg.wrap(ln)
	}
	if cfg.ProxyProtocol != nil {
		p.headers = &proxyHeaders{Listener: ln, from: cfg.ProxyProtocol, within: cfg.HeaderTimeout}
		ln = p.headers
	}
	p.conns = &conns{Listener: ln, max: cfg.MaxConnections, perClient: cfg.MaxConnectionsClient, trusted: cfg.Trusted}
	return p, nil
}

// Open opens an address for another protocol than HTTP. A connection that finds no room is rejected, because only HTTP
// shows which connections are idle. Open uses only Name, Addr, TLS, ProxyProtocol, MaxConnections and Log of the
// configuration.
func Open(ctx context.Context, cfg Config) (*Port, error) {
	p, err := openPort(ctx, cfg)
	if err == nil {
		p.conns.busy = true
	}
	return p, err
}

func (p *Port) Accept() (net.Conn, error) {
	c, err := p.conns.Accept()
	if err != nil {
		return nil, err
	}
	framed := newFramedConn(c, &p.floods, p.account)
	if p.cert != nil {
		current := func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.cert.handshakeConfig(), nil }
		secure := tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: current})
		framed.Conn = secure
		framed.tls = sync.OnceValue(func() *tls.ConnectionState { st := secure.ConnectionState(); return &st })
	}
	return framed, nil
}

func (p *Port) Addr() net.Addr { return p.conns.Addr() }

// Addr returns the address on which the server listens.
func (s *Server) Addr() string { return s.conns.Addr().String() }

// Close closes the address.
func (p *Port) Close() error { return p.conns.Close() }

// Stats are counters since the start, and Open as a current value.
type Stats struct {
	Open      int64  `metric:"hotparam_listener_open" help:"Open connections."`
	Rejected  uint64 `metric:"hotparam_listener_rejected_total" help:"Connections rejected because requests were in progress on all open connections."`
	Evicted   uint64 `metric:"hotparam_listener_evicted_total" help:"Idle connections closed to make room for new ones."`
	Headers   uint64 `metric:"hotparam_listener_headers_rejected_total" help:"HTTP/2 requests rejected because open requests, of their client (431) or of all clients (503), take too much memory."`
	Slow      uint64 `metric:"hotparam_listener_slow_total" help:"Requests whose body arrived too slowly."`
	Prefaces  uint64 `metric:"hotparam_listener_prefaces_total" help:"Misplaced HTTP/2 prefaces; answered 505."`
	Floods    uint64 `metric:"hotparam_listener_floods_total" help:"HTTP/2 connections ended because they sent too many frames other than requests and data, such as PING and CONTINUATION, or cancelled requests at once."`
	Ambiguous uint64 `metric:"hotparam_listener_ambiguous_total" help:"Requests with Transfer-Encoding and Content-Length, or Transfer-Encoding in HTTP/1.0; answered 400."`
	NoHeader  uint64 `metric:"hotparam_listener_no_proxy_header_total" help:"Connections of trusted proxies closed because they did not begin with a PROXY header."`
	// MemoryBound leaves out bodies and the memory of handlers.
	MemoryBound int64 `metric:"hotparam_listener_memory_bound_bytes" help:"Maximum bytes for connections and headers of requests. 0: no bound, because max_connections is 0."`
	// Certificate is absent without TLS.
	Certificate *CertificateStats
}

type CertificateStats struct {
	Valid   bool      `metric:"hotparam_listener_certificate_valid" help:"1, or 0 while changed files cannot be used and the previous certificate stays in use."`
	Expires time.Time `metric:"hotparam_listener_certificate_expires_timestamp_seconds" help:"Time at which the certificate in use expires, in unix seconds."`
}

func (p *Port) Stats() Stats {
	p.conns.mu.Lock()
	st := Stats{Open: int64(p.conns.open), Rejected: p.conns.rejected, Evicted: p.conns.evicted, MemoryBound: p.memory}
	p.conns.mu.Unlock()
	st.Floods = p.floods.Load()
	if p.headers != nil {
		st.NoHeader = p.headers.missing.Load()
	}
	if p.cert != nil {
		st.Certificate = new(CertificateStats)
		st.Certificate.Expires, st.Certificate.Valid = p.cert.expiryState()
	}
	return st
}

// listen opens the socket. It replaces a unix socket without a listener. Only the owner and group of a unix socket may
// connect.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	path, unix := strings.CutPrefix(addr, auth.UnixPrefix)
	if !unix {
		return lc.Listen(ctx, "tcp", addr)
	}
	if c, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("%s is in use", path)
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	ln, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// headerWithin bounds the wait for the header of the PROXY protocol if the listener has no bound of its own.
const headerWithin = 10 * time.Second

// proxyHeaders reads the header of the PROXY protocol from the connections of trusted proxies. Their RemoteAddr is then
// the client that the header names. A trusted proxy has to send a header, because the client could write one that the
// proxy leaves out. Other peers are not asked for a header, so a header of theirs is only an odd request.
//
// The first call that needs the header reads it, in the goroutine of the connection, so Accept does not wait for a slow
// peer.
type proxyHeaders struct {
	net.Listener
	from    func(netip.Addr) bool
	within  time.Duration
	missing atomic.Uint64
}

func (l *proxyHeaders) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil || !l.from(addressOf(raw)) {
		return raw, err
	}
	within := cmp.Or(max(l.within, 0), headerWithin)
	return &headedConn{
		Conn: proxyproto.NewConn(raw, proxyproto.WithPolicy(proxyproto.REQUIRE),
			proxyproto.SetReadHeaderTimeout(within)),
		owner: l,
	}, nil
}

// headedConn is a connection that begins with a header of the PROXY protocol.
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

// addressOf returns the address of a peer, or an invalid one for a unix socket.
func addressOf(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}
