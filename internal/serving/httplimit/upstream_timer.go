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

// upstreamTimer measures the upstream of a request whose limits adapt to it: the time until the first byte of the
// response, and the status. It counts neither the time in which a client sends the body of its request, nor the time in
// which it reads the response, because a slow client must not look like a slow upstream.
type upstreamTimer struct {
	ctx      context.Context // of the request; it ends when the client leaves
	gate     *HTTPGate
	upstream string
	lease    *verdict.Lease // may be nil

	mu   sync.Mutex // a transport reads the body in a goroutine of its own
	at   time.Time  // when the upstream had the request; zero before
	over bool
}

// recordRequest records that the upstream has the whole request.
func (o *upstreamTimer) recordRequest() {
	now := o.gate.cfg.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at.IsZero() && !o.over {
		o.at = now
		o.gate.cfg.Gate.UpstreamBegins(now, o.upstream)
	}
}

// recordResponse records that the response begins.
func (o *upstreamTimer) recordResponse(status int) {
	now := o.gate.cfg.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	if o.ctx.Err() != nil {
		status = 0 // the client had left, whatever was written
	}
	if o.lease != nil {
		o.gate.cfg.Gate.ResponseStarted(now, o.lease)
	}
	if !o.at.IsZero() { // a response before the whole request would prove nothing
		o.gate.cfg.Gate.UpstreamEnds(now, o.upstream, now.Sub(o.at), status)
	}
}

type observedBody struct {
	io.ReadCloser
	tracker *RequestTracker
}

func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.tracker.HandlerStarted()
	}
	return n, err
}

// hasBody reports whether a request has a body that its handler has to read first. Caddy sets a reader of its own
// instead of http.NoBody.
func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// ServeWithStatus calls a handler, and told once with the status of the response when it begins, or with 500 if the
// handler panics before.
func ServeWithStatus(w http.ResponseWriter, r *http.Request, next http.Handler, told func(status int)) {
	s := &statusWriter{ResponseWriter: w, onStatus: told}
	defer s.reportPanic()
	next.ServeHTTP(s, r)
	s.report(http.StatusOK) // in case it writes nothing
}

// statusWriter reports the status of a response. Only the handler's goroutine uses it.
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

// reportPanic reports a handler that panicked before its response, which then grants nothing.
func (s *statusWriter) reportPanic() {
	if !s.over {
		delete(s.Header(), FieldGrant)
		s.report(http.StatusInternalServerError)
	}
}

// Unwrap lets http.ResponseController find the capabilities of the server's own writer.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *statusWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		s.report(status)
	} else if h := s.Header(); h[FieldGrant] != nil { // an informational response cannot keep caches from storing it
		defer func(classes []string) { h[FieldGrant] = classes }(h[FieldGrant])
		delete(h, FieldGrant)
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Write(p []byte) (int, error) {
	s.report(http.StatusOK)
	return s.ResponseWriter.Write(p)
}

// Flush implements http.Flusher. It sends the header.
func (s *statusWriter) Flush() {
	s.report(http.StatusOK)
	_ = http.NewResponseController(s.ResponseWriter).Flush() // a writer that cannot flush is not flushed
}

// Hijack implements http.Hijacker. After it the response is left to the handler.
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
