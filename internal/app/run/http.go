package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// server is one HTTP listener. Listening happens in newServer, so that a taken
// port is an error before anything else starts.
type server struct {
	name string
	ln   net.Listener
	srv  *http.Server
}

// newServer listens on addr. Streams end when the server stops: their request
// context is a child of streams.
func newServer(ctx context.Context, name, flag, addr string, h http.Handler, log *slog.Logger) (*server, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen: %w; choose another address with --%s", name, err, flag)
	}
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10, // also bounds the request target
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return &server{name: name, ln: ln, srv: srv}, nil
}

// Addr is where the server listens.
func (s *server) Addr() string { return s.ln.Addr().String() }

// Run serves until ctx ends, then lets requests under way finish for at most
// five seconds and cuts off the rest.
func (s *server) Run(ctx context.Context) error {
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	s.srv.BaseContext = func(net.Listener) context.Context { return streams }
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(streams, 5*time.Second)
		defer cancel()
		if err := s.srv.Shutdown(grace); err != nil {
			endStreams()
			s.srv.Close()
		}
	}()
	err := s.srv.Serve(s.ln)
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
}
