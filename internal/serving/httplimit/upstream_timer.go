package httplimit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// upstreamTimer measures the upstream of a request whose limits adapt to it: how long the first byte of the response
// takes, and its status. It counts neither the time in which a client sends the body of its request, nor that in which
// it reads the response: a slow client must not look like a slow upstream.
type upstreamTimer struct {
	ctx      context.Context // of the request: over when the client left
	gate     *HTTPGate
	upstream string
	lease    *verdict.Lease // nil: none

	mu   sync.Mutex // a transport reads the body in a goroutine of its own
	at   time.Time  // when the upstream had the request; zero: not yet
	over bool
}

// begin is when the upstream has the whole request.
func (o *upstreamTimer) begin() {
	now := o.gate.cfg.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at.IsZero() && !o.over {
		o.at = now
		o.gate.cfg.Gate.UpstreamBegins(now, o.upstream)
	}
}

// answered is when the answer begins.
func (o *upstreamTimer) answered(status int) {
	now := o.gate.cfg.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	if o.ctx.Err() != nil {
		status = 0 // whatever was written, the client had gone
	}
	if o.lease != nil {
		o.gate.cfg.Gate.ResponseStarted(now, o.lease)
	}
	if !o.at.IsZero() { // else it answered before it had the request, which says nothing
		o.gate.cfg.Gate.UpstreamEnds(now, o.upstream, now.Sub(o.at), status)
	}
}

type observedBody struct {
	io.ReadCloser
	of *upstreamTimer
}

func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.of.begin()
	}
	return n, err
}

// hasBody reports whether a request has a body that its handler has to read first. Caddy puts a
// reader of its own instead of http.NoBody.
func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// ServeWithStatus calls a handler and tells the status of its answer when that begins, once; 500 where it panics
// before.
func ServeWithStatus(w http.ResponseWriter, r *http.Request, next http.Handler, told func(status int)) {
	s := &statusWriter{ResponseWriter: w, onStatus: told}
	defer s.report(http.StatusInternalServerError) // it panicked
	next.ServeHTTP(s, r)
	s.report(http.StatusOK) // a handler that writes nothing says so
}

// statusWriter says which status an answer has. One goroutine uses it, that of the handler.
type statusWriter struct {
	http.ResponseWriter
	onStatus func(status int)
	over     bool
}

func (s *statusWriter) report(status int) {
	if !s.over {
		s.over = true
		s.onStatus(status)
	}
}

// Unwrap lets http.ResponseController find what the server's own writer can do.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *statusWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		s.report(status)
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Write(p []byte) (int, error) {
	s.report(http.StatusOK)
	return s.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, which sends the header.
func (s *statusWriter) Flush() {
	s.report(http.StatusOK)
	_ = http.NewResponseController(s.ResponseWriter).Flush() // a writer that cannot is not flushed
}

// Hijack implements http.Hijacker: the answer is the handler's own affair from then on.
func (s *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err == nil {
		s.report(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// ReadFrom implements io.ReaderFrom, by which the server sends files.
func (s *statusWriter) ReadFrom(r io.Reader) (int64, error) {
	s.report(http.StatusOK)
	return io.Copy(s.ResponseWriter, r)
}
