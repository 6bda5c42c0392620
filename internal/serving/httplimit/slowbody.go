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

// ErrSlowBody is what reading a body returns whose client was too slow.
var ErrSlowBody = errors.New("httplimit: the request body came too slowly")

// minBodyRate is how many bytes a second a body must bring in the long run.
const minBodyRate = 500

// SlowBodies gives request bodies a deadline that moves as they progress. A body
// may keep its reader waiting for the patience; every 500 bytes give a second
// back, never more than the patience. So an upload of hours passes, and one that
// stands still or drips is cut. Time that the reader itself takes does not count.
type SlowBodies struct {
	Timeout time.Duration // 0: bodies may take as long as they like
	cut     atomic.Uint64
}

// Cut is how many bodies came too slowly.
func (s *SlowBodies) Cut() uint64 { return s.cut.Load() }

// Protect puts the deadline on the bodies that a handler reads.
func (s *SlowBodies) Protect(next http.Handler) http.Handler {
	if s.Timeout <= 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			b := s.guard(w, r.Body)
			defer b.end()
			r = r.WithContext(context.WithValue(r.Context(), bodyOf{}, b)) // proxies wrap bodies
			r.Body = b
		}
		next.ServeHTTP(w, r)
	})
}

// guard puts a deadline on one body.
func (s *SlowBodies) guard(w http.ResponseWriter, body io.ReadCloser) *timedBody {
	b := &timedBody{ReadCloser: body, control: http.NewResponseController(w), owner: s,
		left: s.Timeout, patience: s.Timeout, rate: minBodyRate}
	b.setDeadline(time.Now().Add(s.Timeout)) // the server itself reads what a handler leaves
	return b
}

// bodyOf is where the context of a request has its timedBody.
type bodyOf struct{}

// timedBody is one body. It is read by one goroutine at a time.
type timedBody struct {
	io.ReadCloser
	owner    *SlowBodies
	left     time.Duration // of the patience
	patience time.Duration
	rate     time.Duration // bytes that give a second back
	until    atomic.Int64  // the deadline in unix nanoseconds; 0: none
	slow     atomic.Bool   // it was cut

	mu      sync.Mutex               // guards control
	control *http.ResponseController // nil: the handler has returned
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
	b.setDeadline(time.Time{}) // the connection is watched for its end while the request is answered
	return n, err
}

// hurry gives a body that nobody has read yet the rate and the patience of requests that hold slots.
func (b *timedBody) hurry() {
	b.rate, b.patience = heldRate, min(heldPatience, b.patience)
	b.left = b.patience
}

// TooSlow reports whether the body of a request came too slowly. The context of the
// request ends then too, so who passes a body on may see that before [ErrSlowBody].
func TooSlow(r *http.Request) bool {
	b, ok := r.Context().Value(bodyOf{}).(*timedBody)
	if !ok {
		return false
	}
	until := b.until.Load()
	return b.slow.Load() || until != 0 && time.Now().UnixNano() >= until
}

// setDeadline does nothing where a connection knows no deadlines.
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

// end leaves the connection alone from now on: its next request has deadlines of
// its own, while a transport may still be reading this body.
func (b *timedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.control = nil
}
