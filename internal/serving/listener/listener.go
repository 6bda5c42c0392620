// Package listener takes a port and serves HTTP on it: HTTP/1.1 and HTTP/2, with
// TLS or without (h2c).
//
// Every listener of every program is one of these, so each has a bound on its
// connections, deadlines for slow headers, bodies and readers, certificates that
// are read again when their files change, and a graceful stop with an end. What a
// request means is its handler's.
package listener

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

type Config struct {
	// Name is the listener's in logs and metrics, and the section of its settings.
	Name string
	// Addr is "host:port", or "unix:" and a path.
	Addr    string
	Handler http.Handler
	TLS     TLS
	// ProxyProtocol says of which peers the connections begin with a header of the PROXY
	// protocol, version 1 or 2, that names the client; nil: of none. An invalid address is
	// that of a unix socket.
	ProxyProtocol func(netip.Addr) bool
	// MaxConnections bounds the open connections, MaxConnectionsClient those of one client, an address or a /64 of
	// IPv6; 0: no bound. Peers that are Trusted speak for many clients and have all; nil: there are none.
	MaxConnections, MaxConnectionsClient int
	Trusted                              func(netip.Addr) bool
	// HeaderTimeout bounds the header of a request and the TLS handshake,
	// BodyTimeout how long its body may keep the handler waiting (see
	// httplimit.SlowBodies), IdleTimeout the wait for the next one; 0: no bound.
	HeaderTimeout, BodyTimeout, IdleTimeout time.Duration
	// Grace is how long requests under way may take when the listener stops.
	Grace time.Duration
	Log   *slog.Logger
}

// Server is one listener. It holds its port from Listen until Run returns.
type Server struct {
	*Port
	cfg      Config
	srv      *http.Server
	bodies   httplimit.SlowBodies
	prefaces atomic.Uint64
	headers  atomic.Uint64 // requests rejected for the headers that their client holds
	held     atomic.Int64  // bytes that HTTP/2 requests under way hold
}

// HTTP/2 repeats a field of a header by a byte or two, so a client that holds streams open takes a thousand times the
// memory that it sends. These bound what it gets.
const (
	maxHeader  = 64 << 10 // of one request, and its target
	maxStreams = 100      // of one connection
	// maxHeld is of the headers of all requests under way of one client. Beyond it only usual headers pass, so that
	// many people behind one address do.
	maxHeld     = 2 << 20
	usualHeader = 2 << 10
	// perConnection is what a connection takes at most with one request under way: goroutine, buffers, TLS, and a
	// header that is read. HTTP/2 requests under way take perRequest and their header beside it, together at most
	// perStreams for each connection that may be open, or minStreams.
	perConnection = 128 << 10
	perRequest    = 16 << 10
	perStreams    = 32 << 10
	minStreams    = 64 << 20
)

// memoryBound is the most bytes that the connections of a listener take, without bodies and what handlers keep; 0: it
// has no bound on connections.
func (cfg *Config) memoryBound() int64 {
	return int64(cfg.MaxConnections) * perConnection
}

// streamsBound is the part of HTTP/2 requests under way; 0: no bound.
func (cfg *Config) streamsBound() int64 {
	if cfg.MaxConnections == 0 {
		return 0
	}
	return max(minStreams, int64(cfg.MaxConnections)*perStreams)
}

// Listen takes the address, so that a taken port is an error before anything else
// starts.
func Listen(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	s.bodies.Timeout = cfg.BodyTimeout
	s.srv = &http.Server{
		Handler:           s.bodies.Protect(cfg.Handler),
		ReadHeaderTimeout: cfg.HeaderTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
			WriteByteTimeout: writeWithin, MaxConcurrentStreams: maxStreams},
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, nc)
		},
	}
	s.srv.Handler = s.boundHeaders(s.rejectPrefaces(s.srv.Handler))
	s.srv.Protocols.SetHTTP1(true)
	s.srv.Protocols.SetUnencryptedHTTP2(true) // TLS is the port's
	var err error
	if s.Port, err = open(ctx, cfg); err != nil {
		return nil, err
	}
	s.srv.ConnState = s.conns.changed
	return s, nil
}

// rejectPrefaces answers "PRI * HTTP/2.0" in the middle of a connection, where it is taken for a request.
func (s *Server) rejectPrefaces(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "PRI" {
			s.prefaces.Add(1)
			w.Header().Set("Connection", "close")
			httplimit.WriteProblem(w, http.StatusHTTPVersionNotSupported, "HTTP/2 cannot begin here.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// connKey is the key of the *framedConn in the context of a request.
type connKey struct{}

// boundHeaders rejects HTTP/2 requests of a client whose requests under way hold maxHeld bytes of header, and of all
// when those of the listener take what it has for them. It also says what is known by TLS, which net/http does not see.
func (s *Server) boundHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*framedConn)
		if c.tls != nil {
			r.TLS = c.tls()
		}
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		size, client := headerSize(r), unwrapConn(c).client
		defer s.release(client, size+perRequest)
		if !s.hold(client, size+perRequest) {
			s.headers.Add(1)
			httplimit.WriteProblem(w, http.StatusServiceUnavailable, "Too many requests are under way.")
			return
		}
		if client == nil {
			next.ServeHTTP(w, r)
			return
		}
		defer client.headers.Add(-size)
		if client.headers.Add(size) > maxHeld && size > usualHeader {
			s.headers.Add(1)
			httplimit.WriteProblem(w, http.StatusRequestHeaderFieldsTooLarge,
				"Too many bytes of header are held by requests under way.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hold takes bytes for a request, which release gives back in any case. It reports whether the listener has them, and
// the client: one has the same part of them as of the connections, so that others go on.
func (s *Server) hold(client *client, n int64) (ok bool) {
	most := s.cfg.streamsBound()
	ok = s.held.Add(n) <= most || most == 0
	if client == nil {
		return ok
	}
	part := most
	if s.cfg.MaxConnectionsClient > 0 && s.cfg.MaxConnectionsClient < s.cfg.MaxConnections {
		part = most / int64(s.cfg.MaxConnections) * int64(s.cfg.MaxConnectionsClient)
	}
	return (client.held.Add(n) <= part || most == 0) && ok
}

func (s *Server) release(client *client, n int64) {
	s.held.Add(-n)
	if client != nil {
		client.held.Add(-n)
	}
}

// headerSize is what a header takes, with 32 bytes for each field as RFC 9113, 6.5.2 counts.
func headerSize(r *http.Request) (n int64) {
	for name, values := range r.Header {
		for _, v := range values {
			n += int64(len(name) + len(v) + 32)
		}
	}
	return n + int64(len(r.RequestURI)+len(r.Host))
}

// OnShutdown calls f when the server begins to stop.
func (s *Server) OnShutdown(f func()) { s.srv.RegisterOnShutdown(f) }

func (s *Server) Stats() Stats {
	st := s.Port.Stats()
	st.Slow, st.Prefaces, st.Headers = s.bodies.Cut(), s.prefaces.Load(), s.headers.Load()
	st.MemoryBound += s.cfg.streamsBound()
	return st
}

// Run serves until ctx ends, then lets requests under way finish for the grace and
// cuts off the rest. Streams end then too: their request context is a child of one
// that ends with the server.
func (s *Server) Run(ctx context.Context) error {
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	s.srv.BaseContext = func(net.Listener) context.Context { return streams }
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(streams, s.cfg.Grace)
		defer cancel()
		if err := s.srv.Shutdown(grace); err != nil {
			endStreams()
			_ = s.srv.Close() // its connections are cut off; there is nothing to do about an error
		}
	}()
	err := s.srv.Serve(s.Port)
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
}
