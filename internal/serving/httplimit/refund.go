package httplimit

import (
	"bufio"
	"net"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Refunder is a Gate that gives back what a request took. *gate.Gate is one.
type Refunder interface {
	Gate
	Refund(now time.Time, r *hottype.Refund, status int)
}

// Refunding gives the handler to which an admitted request goes. Where the request may get
// back what it took, it tells the gate the status of the answer, once.
func (g *SafeGate) Refunding(v *hottype.Verdict, next http.Handler) http.Handler {
	refund := v.Refund
	if refund == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &statusWriter{ResponseWriter: w, told: func(status int) { g.Refund(refund, status) }}
		defer s.tell(http.StatusInternalServerError) // it panicked
		next.ServeHTTP(s, r)
		s.tell(http.StatusOK) // a handler that writes nothing says so
	})
}

// Refund gives back what a request took, if its answer had one of the statuses.
func (g *SafeGate) Refund(r *hottype.Refund, status int) {
	if to, ok := g.cfg.Gate.(Refunder); ok && r.Due(status) {
		to.Refund(g.cfg.Now(), r, status)
	}
}

// statusWriter says which status an answer has. One goroutine uses it, that of the handler.
type statusWriter struct {
	http.ResponseWriter
	told func(status int)
	over bool
}

func (s *statusWriter) tell(status int) {
	if !s.over {
		s.over = true
		s.told(status)
	}
}

// Unwrap lets http.ResponseController find what the server's own writer can do.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (s *statusWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		s.tell(status)
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (s *statusWriter) Write(p []byte) (int, error) {
	s.tell(http.StatusOK)
	return s.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, which sends the header.
func (s *statusWriter) Flush() {
	s.tell(http.StatusOK)
	_ = http.NewResponseController(s.ResponseWriter).Flush() // a writer that cannot is not flushed
}

// Hijack implements http.Hijacker: the answer is the handler's own affair from then on.
func (s *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err == nil {
		s.tell(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}
