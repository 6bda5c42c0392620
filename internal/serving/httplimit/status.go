package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// ServeWithStatus calls a handler and tells the status of its answer when that begins, once; 500 where it panics
// before.
func ServeWithStatus(w http.ResponseWriter, r *http.Request, next http.Handler, told func(status int)) {
	s := &statusWriter{ResponseWriter: w, onStatus: told}
	defer s.tell(http.StatusInternalServerError) // it panicked
	next.ServeHTTP(s, r)
	s.tell(http.StatusOK) // a handler that writes nothing says so
}

// statusWriter says which status an answer has. One goroutine uses it, that of the handler.
type statusWriter struct {
	http.ResponseWriter
	onStatus func(status int)
	over     bool
}

func (s *statusWriter) tell(status int) {
	if !s.over {
		s.over = true
		s.onStatus(status)
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

// ReadFrom implements io.ReaderFrom, by which the server sends files.
func (s *statusWriter) ReadFrom(r io.Reader) (int64, error) {
	s.tell(http.StatusOK)
	return io.Copy(s.ResponseWriter, r)
}
