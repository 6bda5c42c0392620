package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ErrSlowBody is the error of reading a body whose client was too slow.
var ErrSlowBody = errors.New("httplimit: the request body came too slowly")

// minBodyRate is the number of bytes a second that a body must bring in the long run.
const minBodyRate = 500

// SlowBodies sets a deadline for request bodies that moves as they progress. A body may keep its reader waiting for the
// patience, and every 500 bytes return a second, up to the patience. So an upload of hours passes, and one that stands
// still or drips is cut off. Time that the reader itself takes does not count.
type SlowBodies struct {
	Timeout time.Duration // 0 if bodies may take any time
	cut     atomic.Uint64
}

// Cut returns the number of bodies that came too slowly.
func (s *SlowBodies) Cut() uint64 { return s.cut.Load() }

// Protect sets the deadline for the bodies that a handler reads.
func (s *SlowBodies) Protect(next http.Handler) http.Handler {
	if s.Timeout <= 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			b := s.guardBody(w, r.Body)
			defer b.detachConn()
			r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, b)) // proxies wrap bodies
			r.Body = b
		}
		next.ServeHTTP(w, r)
	})
}

// guardBody sets a deadline for one body.
func (s *SlowBodies) guardBody(w http.ResponseWriter, body io.ReadCloser) *timedBody {
	b := &timedBody{ReadCloser: body, control: http.NewResponseController(w), owner: s,
		left: s.Timeout, patience: s.Timeout, rate: minBodyRate}
	b.setDeadline(time.Now().Add(s.Timeout)) // the server itself reads the rest that a handler leaves
	return b
}

// bodyKey is the context key of a request's timedBody.
type bodyKey struct{}

// timedBody is one body. One goroutine reads it at a time.
type timedBody struct {
	io.ReadCloser
	owner    *SlowBodies
	left     time.Duration // of the patience
	patience time.Duration
	rate     time.Duration // bytes that return a second
	until    atomic.Int64  // the deadline in unix nanoseconds; 0 for no deadline
	slow     atomic.Bool   // it was cut

	mu      sync.Mutex               // guards control
	control *http.ResponseController // nil after the handler has returned
}

func (b *timedBody) Read(p []byte) (int, error) {
	if b.slow.Load() {
		return 0, ErrSlowBody
	}
	begin := time.Now()
	b.setDeadline(begin.Add(b.left))
	n, err := b.ReadCloser.Read(p)
	b.left -= time.Since(begin)
	b.left = min(b.left+time.Duration(n)*time.Second/b.rate, b.patience)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.slow.Store(true)
		b.owner.cut.Add(1)
		return n, ErrSlowBody
	}
	b.setDeadline(time.Time{}) // while the request is answered, the connection is watched for its end
	return n, err
}

// setHeldRate sets the rate and the patience of requests that hold slots, for a body that is still unread.
func (b *timedBody) setHeldRate() {
	b.rate, b.patience = heldRate, min(heldPatience, b.patience)
	b.left = b.patience
}

// TooSlow reports whether the body of a request came too slowly. The context of the request ends then too, so code that
// passes a body on may see that before [ErrSlowBody].
func TooSlow(r *http.Request) bool {
	b, ok := r.Context().Value(bodyKey{}).(*timedBody)
	if !ok {
		return false
	}
	until := b.until.Load()
	return b.slow.Load() || until != 0 && time.Now().UnixNano() >= until
}

// setDeadline sets the deadline. It does nothing if the connection has no deadlines.
func (b *timedBody) setDeadline(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until.Store(0)
	if !t.IsZero() {
		b.until.Store(t.UnixNano())
	}
	if b.control != nil {
		_ = b.control.SetReadDeadline(t)
	}
}

// detachConn leaves the connection alone from now on, because its next request has deadlines of its own, while a
// transport may still be reading this body.
func (b *timedBody) detachConn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.control = nil
}
