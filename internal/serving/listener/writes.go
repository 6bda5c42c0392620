package listener

import (
	"net/http"
	"sync"
	"time"
)

// streamWriter ends the stream of an HTTP/2 response that its client does not read. The deadline of the connection does
// not notice such a client, because nothing is written while a window is closed. The client has writeWithin for each
// frame.
type streamWriter struct {
	http.ResponseWriter
	streams *streams
	stream  *stream
	control *http.ResponseController

	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	writing bool // the handler waits for a write
}

func newStreamWriter(w http.ResponseWriter, s *streams, st *stream) *streamWriter {
	return &streamWriter{ResponseWriter: w, streams: s, stream: st, control: http.NewResponseController(w)}
}

// Unwrap lets http.ResponseController find the capabilities of the server's own writer.
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *streamWriter) Write(p []byte) (int, error) {
	w.startTimer()
	defer w.stopTimer()
	return w.ResponseWriter.Write(p)
}

// FlushError implements the method that http.ResponseController calls.
func (w *streamWriter) FlushError() error {
	w.startTimer()
	defer w.stopTimer()
	return w.control.Flush()
}

// Flush implements http.Flusher.
func (w *streamWriter) Flush() { _ = w.FlushError() }

func (w *streamWriter) startTimer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = true
	if w.timer == nil {
		w.timer = time.AfterFunc(writeWithin, w.endIfStalled)
		return
	}
	w.timer.Reset(writeWithin)
}

func (w *streamWriter) stopTimer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = false
	w.timer.Stop()
}

// endIfStalled ends the stream if a write waits and no part of the response was written for writeWithin.
func (w *streamWriter) endIfStalled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.writing {
		return
	}
	if left := writeWithin - time.Since(w.streams.lastWrite(w.stream)); left > 0 {
		w.timer.Reset(left)
		return
	}
	_ = w.control.SetWriteDeadline(time.Now().Add(-time.Second)) // resets the stream
}

// boundRest sets a deadline for the rest of the response when the handler of r returns. If the stream is closed, the
// context has ended, and a deadline would reset the stream again.
func (w *streamWriter) boundRest(r *http.Request) {
	if r.Context().Err() == nil {
		_ = w.control.SetWriteDeadline(time.Now().Add(writeWithin))
	}
}
