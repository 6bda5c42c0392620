package respcache

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/hotparam/pipeline/internal/wait"
)

func (f *fetch) Header() http.Header { return f.header }

// interim is an informational response, such as 103 (Early Hints).
type interim struct {
	status int
	header http.Header
}

// maxInterim bounds the informational responses that wait for the client.
const maxInterim = 16

// WriteHeader implements http.ResponseWriter. Informational responses go to the client for which the fetch began, and
// are not stored.
func (f *fetch) WriteHeader(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case status >= 200:
		f.beginResponse(status)
	case f.status == 0 && status != http.StatusSwitchingProtocols && len(f.interim) < maxInterim:
		f.interim = append(f.interim, interim{status, f.header.Clone()})
		f.notify()
	}
}

// beginResponse records status and fields, and decides how the body is handled. It needs mu.
func (f *fetch) beginResponse(status int) {
	if f.status != 0 {
		return
	}
	f.status, f.sent, f.declaredLength = status, f.header.Clone(), -1
	switch n, err := strconv.ParseUint(f.sent.Get("Content-Length"), 10, 63); {
	case status == http.StatusNotModified: // the length is that of another response
	case err == nil && status != http.StatusNoContent:
		f.declaredLength = int64(n)
	default:
		delete(f.sent, "Content-Length") // as the server would
	}
	// A 304 for which the fetch did not ask belongs to the client.
	f.held = status == http.StatusNotModified && f.prior != nil && f.prior.hasValidator() ||
		f.backup != nil && serverFailed(status)
	if !f.held {
		f.why = whyStatus
		switch {
		case f.expired:
			f.why = whyStream
		case (status == http.StatusPartialContent) == (f.entry.part != ""):
			f.answer, f.why = storableAnswer(status, f.sent, f.serve, f.now())
		}
		if f.answer != nil {
			f.answer.unsure = !f.plain && (status >= 400 || !containsAll(f.answer.vary, f.asks))
		}
		switch {
		case f.answer != nil && f.declaredLength > f.serve.MaxBody:
			f.stopBuffering(whySize)
		case f.answer == nil:
			f.stopBuffering(f.why)
		case f.answer.mustRevalidate():
			f.releaseWaiters()
		}
		if f.answer != nil {
			f.slowTimer = time.AfterFunc(f.serve.Wait, f.markSlow)
		}
	}
	f.notify()
}

// stopBuffering lets the body stream on to the client alone. The waiting requests go on as if there were no cache. It
// needs mu.
func (f *fetch) stopBuffering(why string) {
	f.answer, f.why = nil, why
	f.timeout.Stop()
	f.releaseWaiters()
	f.endUnread()
}

// releaseWaiters sends the waiting requests to the handler. It needs mu.
func (f *fetch) releaseWaiters() {
	f.release(outcome{notStored: true}, f.now())
}

func (f *fetch) Write(p []byte) (int, error) {
	f.mu.Lock()
	if f.finished {
		f.mu.Unlock()
		return 0, errFinished
	}
	f.beginResponse(http.StatusOK)
	if f.declaredLength >= 0 && f.length+int64(len(p)) > f.declaredLength && !f.held {
		f.mu.Unlock()
		return 0, http.ErrContentLength
	}
	f.length += int64(len(p))
	switch {
	case f.held || len(p) == 0:
		f.mu.Unlock()
		return len(p), nil
	case f.answer != nil && f.bufferBody(p):
		f.notify()
		f.mu.Unlock()
		return len(p), nil
	}
	f.chunk = p
	f.notify()
	f.mu.Unlock()
	select {
	case <-f.taken:
		return len(p), nil
	case <-f.gone:
	}
	f.mu.Lock()
	f.chunk = nil // it belongs to the handler again
	f.mu.Unlock()
	return 0, errNoReader
}

// bufferBody stores a part of the body, and reports whether there is room for it. It needs mu.
func (f *fetch) bufferBody(p []byte) bool {
	if f.length > f.serve.MaxBody {
		f.stopBuffering(whySize)
		return false
	}
	n := int64(len(p))
	if f.declaredLength >= 0 {
		n = f.declaredLength - f.reserved // the whole body with the first part
	}
	if !f.store.reserveBytes(f.shard, n) {
		f.stopBuffering(whyMemory)
		return false
	}
	f.reserved += n
	if f.body == nil && f.declaredLength > 0 {
		f.body = make([]byte, 0, f.declaredLength)
	}
	f.body = append(f.body, p...)
	return true
}

func (f *fetch) Flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beginResponse(http.StatusOK)
	f.flushed = true
	f.notify()
}

// notify wakes the client, if one reads along.
func (f *fetch) notify() { wait.Signal(f.wake) }

// trailerFields returns the fields that the handler set after its body.
func (f *fetch) trailerFields() http.Header {
	list := http.Header{}
	for name, values := range f.header {
		if strings.HasPrefix(name, http.TrailerPrefix) ||
			httpguts.HeaderValuesContainsToken(f.sent["Trailer"], name) {
			list[name] = slices.Clone(values)
		}
	}
	return list
}
