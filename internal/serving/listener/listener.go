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
	// MaxConnections bounds the open connections; 0: no bound.
	MaxConnections int
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
		MaxHeaderBytes:    64 << 10, // also bounds the request target
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
			WriteByteTimeout: writeWithin},
	}
	s.srv.Handler = s.refusePrefaces(s.srv.Handler)
	s.srv.Protocols.SetHTTP1(true)
	s.srv.Protocols.SetHTTP2(true)
	s.srv.Protocols.SetUnencryptedHTTP2(!cfg.TLS.On())
	var err error
	if s.Port, err = open(ctx, cfg); err != nil {
		return nil, err
	}
	s.srv.TLSConfig = s.TLSConfig()
	s.srv.ConnState = s.conns.changed
	return s, nil
}

// refusePrefaces answers "PRI * HTTP/2.0" where it is taken for a request: behind
// TLS without ALPN, or in the middle of a connection.
func (s *Server) refusePrefaces(next http.Handler) http.Handler {
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

// OnShutdown calls f when the server begins to stop.
func (s *Server) OnShutdown(f func()) { s.srv.RegisterOnShutdown(f) }

func (s *Server) Stats() Stats {
	st := s.Port.Stats()
	st.Slow, st.Prefaces = s.bodies.Cut(), s.prefaces.Load()
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
	err := s.serve()
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
}

func (s *Server) serve() error {
	if s.cert != nil {
		return s.srv.ServeTLS(s.conns, "", "")
	}
	return s.srv.Serve(s.conns)
}
