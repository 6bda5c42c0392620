package httplimit

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
)

// progressEvery is the interval at which the cost of a request that goes on is counted.
const progressEvery = time.Second

// costMeasure measures the cost of an allowed request for its upstream.
type costMeasure struct {
	work   *costs.Work
	header http.Header // of the response, or nil if the framework does not show it
	bytes  *atomic.Int64
	clock  func() time.Time

	lock  sync.Mutex // held while progress is counted, which must not come after the end
	timer *time.Timer
	over  bool
}

// newCostMeasure returns the measurement of a work, or nil without a work.
func (g *HTTPGate) newCostMeasure(w *costs.Work) *costMeasure {
	if w == nil {
		return nil
	}
	m := &costMeasure{work: w, clock: g.cfg.Now}
	if w.Counts(hottype.CostTime) || w.Counts(hottype.CostBytes) {
		m.lock.Lock()
		defer m.lock.Unlock()
		m.timer = time.AfterFunc(progressEvery, m.countProgress)
	}
	return m
}

func (m *costMeasure) countProgress() {
	m.lock.Lock()
	defer m.lock.Unlock()
	if !m.over {
		m.work.Progress(m.clock(), max(m.bodyBytes(), 0))
		m.timer.Reset(progressEvery)
	}
}

// bodyBytes returns the length of the body of the response so far, or -1 if it is unknown.
func (m *costMeasure) bodyBytes() int64 {
	if m.bytes == nil {
		return -1
	}
	return m.bytes.Load()
}

// endCost records the end of the response. Only the first call counts.
func (u *RequestTracker) endCost() {
	m := u.cost
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.over {
		return
	}
	m.over = true
	if m.timer != nil {
		m.timer.Stop()
	}
	m.work.End(m.clock(), m.bodyBytes(), u.ctx.Err() != nil)
}

// countsTime reports whether the time of the upstream is counted.
func (u *RequestTracker) countsTime() bool {
	return u != nil && u.cost != nil && u.cost.work.Counts(hottype.CostTime)
}

// countBytes returns a writer that counts the bytes of the body.
func (m *costMeasure) countBytes(w http.ResponseWriter) http.ResponseWriter {
	if !m.work.Counts(hottype.CostBytes) {
		return w
	}
	m.bytes = new(atomic.Int64)
	return &countedWriter{w, m.bytes}
}

// countedWriter counts the bytes of a body. A response without a body, such as to HEAD, has as many as its handler
// wrote.
type countedWriter struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

// Unwrap lets http.ResponseController find the capabilities of the server's own writer.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *countedWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes.Add(int64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom, by which the server sends files.
func (w *countedWriter) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, r)
	w.bytes.Add(n)
	return n, err
}
