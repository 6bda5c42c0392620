// Package listener opens a port and serves HTTP on it: HTTP/1.1 and HTTP/2, with TLS or without (h2c).
//
// All programs use it for all their listeners, so each listener has a bound on its connections, deadlines for slow
// headers, bodies and readers, certificates that are read again when their files change, and a graceful stop with an
// end. The meaning of a request is left to the handler.
package listener

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

type Config struct {
	// Name is the name of the listener in logs and metrics, and the section of its settings.
	Name string
	// Addr is "host:port", or "unix:" and a path.
	Addr    string
	Handler http.Handler
	TLS     TLS
	// ProxyProtocol reports whether the connections of a peer begin with a header of the PROXY protocol, version 1 or
	// 2, that names the client. If it is nil, no connection does. It gets an invalid address for a unix socket.
	ProxyProtocol func(netip.Addr) bool
	// MaxConnections bounds the open connections, MaxConnectionsClient those of a single client, which is an address or
	// a /64 of IPv6; 0 means no bound. Trusted peers speak for many clients and may take all; if Trusted is nil, there
	// are none.
	MaxConnections, MaxConnectionsClient int
	Trusted                              func(netip.Addr) bool
	// HeaderTimeout bounds the header of a request and the TLS handshake, BodyTimeout how long its body may keep the
	// handler waiting (see httplimit.SlowBodies), IdleTimeout the wait for the next request; 0 means no bound.
	HeaderTimeout, BodyTimeout, IdleTimeout time.Duration
	// Grace is how long requests under way may take when the listener stops.
	Grace time.Duration
	Log   *slog.Logger

	wrap func(net.Listener) net.Listener // for tests; nil for the network
}

// Server is one listener. It holds its port from Listen until Run returns.
type Server struct {
	*Port
	cfg      Config
	srv      *http.Server
	bodies   httplimit.SlowBodies
	prefaces atomic.Uint64
	// ambiguous counts requests whose body may end elsewhere for other readers.
	ambiguous atomic.Uint64
}

// HTTP/2 repeats a field of a header by a byte or two, so a client that holds streams open takes a thousand times the
// memory of the bytes that it sends. These constants bound that memory.
const (
	maxHeader  = 64 << 10  // of one request, with its target
	maxStreams = 100       // of one connection
	maxFrame   = 16 << 10  // net/http keeps a buffer for each connection
	maxUnread  = 256 << 10 // bytes of one connection's bodies that no handler has read
	// maxHeld bounds the headers of all requests under way of one client. Beyond it only usual headers pass, so that
	// many people behind one address are still served.
	maxHeld     = 2 << 20
	usualHeader = 2 << 10
	// perConnection is the most memory of a connection with one request under way: goroutine, buffers, TLS, and a
	// header that is being read. HTTP/2 requests under way take perRequest and twice their header in addition, because
	// the collector leaves as much garbage; together at most perStreams for each connection that may be open, or
	// minStreams.
	perConnection = 128 << 10
	perRequest    = 32 << 10
	perStreams    = 32 << 10
	minStreams    = 64 << 20
)

// memoryBound returns the most bytes that the connections of a listener take, without bodies and the memory of
// handlers, or 0 if it has no bound on connections.
func (cfg *Config) memoryBound() int64 {
	return int64(cfg.MaxConnections) * perConnection
}

// streamsBound returns the bound for HTTP/2 requests under way, or 0 if there is none.
func (cfg *Config) streamsBound() int64 {
	if cfg.MaxConnections == 0 {
		return 0
	}
	return max(minStreams, int64(cfg.MaxConnections)*perStreams)
}

// Listen opens the address first, so that a taken port is an error before anything else starts.
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
			WriteByteTimeout: writeWithin, MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread},
		DisableGeneralOptionsHandler: true, // see answerOdd
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, nc)
		},
	}
	s.srv.Handler = s.boundHeaders(s.answerOdd(s.srv.Handler))
	s.srv.Protocols.SetHTTP1(true)
	s.srv.Protocols.SetUnencryptedHTTP2(true) // TLS is the port's
	var err error
	if s.Port, err = openPort(ctx, cfg); err != nil {
		return nil, err
	}
	s.account = newAccount(&cfg)
	s.srv.ConnState = func(nc net.Conn, state http.ConnState) {
		if c, ok := nc.(*framedConn); ok && state == http.StateIdle && c.other.Load() {
			c.framing.reset()
		}
		s.conns.recordState(nc, state)
	}
	return s, nil
}

// answerOdd answers requests that are not about a resource, or whose end is uncertain.
//
// "PRI * HTTP/2.0" is a preface in the middle of a connection, where it is taken for a request. "OPTIONS *" gets the
// response that net/http would send. net/http would read the body first, and of an HTTP/2 connection nothing more is
// read before its handler has begun.
func (s *Server) answerOdd(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch c := r.Context().Value(connKey{}).(*framedConn); {
		case r.Method == "PRI":
			s.prefaces.Add(1)
			w.Header().Set("Connection", "close")
			httplimit.WriteProblem(w, http.StatusHTTPVersionNotSupported, "HTTP/2 cannot begin here.")
		case r.ProtoMajor < 2 && c.framing.isAmbiguous(r):
			s.ambiguous.Add(1)
			w.Header().Set("Connection", "close")
			httplimit.WriteProblem(w, http.StatusBadRequest, "The end of the body is stated twice.")
		case r.Method == http.MethodOptions && r.RequestURI == "*":
			w.Header().Set("Content-Length", "0")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// connKey is the key of the *framedConn in the context of a request.
type connKey struct{}

// boundHeaders rejects HTTP/2 requests for which the account has no room. Its responses have no body, so that no window
// of the client delays their end. It also sets r.TLS, because net/http does not see the TLS connection.
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
		st := c.streams.beginHandler(unwrapConn(c).client, headerSize(r))
		defer c.streams.finishHandler(st)
		if st.rejected {
			clear(r.Header) // net/http keeps the request until the answer is written
			r.URL, r.RequestURI = new(url.URL), ""
			w.WriteHeader(st.rejectionStatus())
			return
		}
		writer := newStreamWriter(w, &c.streams, st)
		defer writer.boundRest(r)
		next.ServeHTTP(writer, r)
	})
}

// headerSize returns the size of a header, with 32 bytes for each field as RFC 9113, 6.5.2 counts.
func headerSize(r *http.Request) (n int64) {
	for name, values := range r.Header {
		for _, v := range values {
			n += int64(len(name) + len(v) + 32)
		}
	}
	if r.Trailer != nil {
		n += maxHeader // net/http keeps the fields of the trailer if one is announced
	}
	return n + int64(len(r.RequestURI)+len(r.Host))
}

// OnShutdown calls f when the server begins to stop.
func (s *Server) OnShutdown(f func()) { s.srv.RegisterOnShutdown(f) }

func (s *Server) Stats() Stats {
	st := s.Port.Stats()
	st.Slow, st.Prefaces, st.Headers = s.bodies.Cut(), s.prefaces.Load(), s.account.rejected.Load()
	st.Ambiguous = s.ambiguous.Load()
	st.MemoryBound += s.cfg.streamsBound()
	return st
}

// Run serves until ctx ends. It then lets requests under way finish within Grace and cuts off the rest. Streams end
// then too, because their request context is a child of one that ends with the server.
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
			_ = s.srv.Close() // it cuts its connections off; an error changes nothing
		}
	}()
	err := s.srv.Serve(s.Port)
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
}
