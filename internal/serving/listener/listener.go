package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/serving/access"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Config is what a listener is built from.
type Config struct {
	// Name is the listener's in logs and metrics, and the section of its settings.
	Name string
	// Addr is "host:port", or "unix:" and a path.
	Addr    string
	Handler http.Handler
	TLS     TLS
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
	cfg      Config
	conns    *conns
	cert     *certificate // nil: no TLS
	srv      *http.Server
	bodies   httplimit.SlowBodies
	prefaces atomic.Uint64
}

// Stats are counters since the start, and Open as it is now.
type Stats struct {
	Open int64
	// Refused connections came when all were taken by requests under way. Evicted ones
	// were idle and made room for new ones.
	Refused, Evicted uint64
	// Slow are requests whose body came too slowly. Prefaces are those of HTTP/2 where
	// none belongs.
	Slow, Prefaces uint64
	// Certificate is absent without TLS.
	Certificate *CertificateStats
}

// CertificateStats tell of a listener's certificate.
type CertificateStats struct {
	// Right is whether the files hold the certificate in use; false: they changed and
	// cannot be used.
	Right   bool
	Expires time.Time // of the certificate in use
}

// Listen takes the address, so that a taken port is an error before anything else
// starts.
func Listen(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	s.bodies.Patience = cfg.BodyTimeout
	s.srv = &http.Server{
		Handler:           s.bodies.Protect(cfg.Handler),
		ReadHeaderTimeout: cfg.HeaderTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    64 << 10, // also bounds the request target
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: writeWithin},
	}
	s.srv.Handler = s.refusePrefaces(s.srv.Handler)
	s.srv.Protocols.SetHTTP1(true)
	s.srv.Protocols.SetHTTP2(true)
	s.srv.Protocols.SetUnencryptedHTTP2(!cfg.TLS.On())
	if cfg.TLS.On() {
		var err error
		if s.cert, err = newCertificate(cfg.Name, cfg.Name+".", cfg.TLS, cfg.Log); err != nil {
			return nil, err
		}
		s.srv.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: s.cert.forHandshake}
	}
	ln, err := listen(ctx, cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen: %w; choose another address with --%s.listen", cfg.Name, err, cfg.Name)
	}
	s.conns = &conns{Listener: ln, max: cfg.MaxConnections}
	s.srv.ConnState = s.conns.changed
	return s, nil
}

// listen opens the socket. A unix socket that nobody listens on any more is
// replaced; only its owner and group may connect.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	path, unix := strings.CutPrefix(addr, access.UnixPrefix)
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

// Addr is where the server listens.
func (s *Server) Addr() string { return s.conns.Addr().String() }

// Close gives the address back where Run is not called.
func (s *Server) Close() error { return s.conns.Close() }

// OnShutdown calls f when the server begins to stop.
func (s *Server) OnShutdown(f func()) { s.srv.RegisterOnShutdown(f) }

// Stats reads the counters.
func (s *Server) Stats() Stats {
	s.conns.mu.Lock()
	st := Stats{Open: int64(s.conns.open), Refused: s.conns.refused, Evicted: s.conns.evicted}
	s.conns.mu.Unlock()
	st.Slow, st.Prefaces = s.bodies.Cut(), s.prefaces.Load()
	if s.cert != nil {
		st.Certificate = new(CertificateStats)
		st.Certificate.Expires, st.Certificate.Right = s.cert.state()
	}
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
