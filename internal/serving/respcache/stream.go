package respcache

import (
	"maps"
	"net/http"
	"strings"
)

// streamResponse sends the response, as it comes, to the client for which the fetch began. It panics as the handler
// did, so that the server breaks the connection off if a response is not whole. It returns false, before it has written
// anything, if choosy is true and the response differs by a field that the fetch did not carry as the client sent it.
func (f *fetch) streamResponse(w http.ResponseWriter, r *http.Request, fwd string, choosy bool) (answered bool) {
	defer f.detachClient()
	s := streaming{fetch: f, w: w, r: r, fwd: fwd, choosy: choosy}
	for s.writeAvailable() {
		select {
		case <-f.wake:
		case <-r.Context().Done():
			return true // the client left
		}
	}
	return !s.foreign
}

// detachClient is called when the client stops reading.
func (f *fetch) detachClient() {
	close(f.gone)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endUnread()
	f.lent.release()
}

// streaming is the progress of the client.
type streaming struct {
	*fetch
	w               http.ResponseWriter
	r               *http.Request
	fwd             string
	choosy, foreign bool

	begun bool
	whole bool // the client has its whole response
	off   int  // of the buffered body
}

// writeAvailable writes the available part of the response. It reports whether there may be more.
func (s *streaming) writeAvailable() bool {
	s.mu.Lock()
	status, held, finished, broken, result := s.status, s.held, s.finished, s.broken, s.result
	buffered, chunk, flush, hints := s.body[s.off:], s.chunk, s.flushed, s.interim
	s.chunk, s.flushed, s.interim = nil, false, nil
	s.mu.Unlock()
	s.sendInterim(hints)
	switch {
	case finished && (held || !s.begun && result != nil):
		s.finishFromStore(result, broken)
		return false
	case status == 0 && !finished, held:
		return true
	case finished && status == 0:
		panic(broken)
	}
	if s.foreign = s.choosy && !s.begun && s.hasAlteredField(s.r, varyNames(s.sent)); s.foreign {
		return false
	}
	if s.sendHeader(status); s.whole {
		return false
	}
	if len(buffered) > 0 {
		_, _ = s.w.Write(buffered) // the server ends the request's context if the client left
		s.off += len(buffered)
	}
	if s.off > 0 {
		s.freeBody()
	}
	if chunk != nil {
		_, _ = s.w.Write(chunk)
		s.taken <- struct{}{}
	}
	if flush {
		_ = http.NewResponseController(s.w).Flush()
	}
	if !finished {
		return true
	}
	if broken != nil {
		panic(broken)
	}
	maps.Copy(s.w.Header(), s.trailer)
	return false
}

// sendInterim sends informational responses.
func (s *streaming) sendInterim(list []interim) {
	h := s.w.Header()
	for _, i := range list {
		final := h.Clone()
		maps.Copy(h, i.header)
		s.w.WriteHeader(i.status)
		clear(h)
		maps.Copy(h, final)
	}
}

// sendHeader sends status and fields. They are the whole response to a client that has the stored response already, or
// that asked for the fields only.
func (s *streaming) sendHeader(status int) {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	s.mu.Lock()
	kept, detail := s.answer != nil, s.why
	for name, values := range s.sent {
		f := fieldOf(name, values)
		f.addTo(h)
	}
	s.mu.Unlock()
	h["Cache-Status"] = append(h["Cache-Status"][:len(h["Cache-Status"]):len(h["Cache-Status"])],
		forwardedField(s.fwd, detail, kept)...)
	if status == http.StatusOK && isNotModified(s.r, h) {
		status = http.StatusNotModified
		delete(h, "Content-Length")
		s.whole = true
	}
	s.whole = s.whole || s.r.Method == http.MethodHead
	s.w.WriteHeader(status)
}

// finishFromStore answers with a stored answer after all, because a 304 freshened it or the handler failed.
func (s *streaming) finishFromStore(result *answer, broken any) {
	if result == nil {
		if broken == nil {
			broken = http.ErrAbortHandler
		}
		panic(broken)
	}
	detail := ""
	if result == s.backup {
		detail = "error"
	}
	result.write(s.w, s.r, s.now(), forwardedField("stale", detail, result != s.backup))
}

// isNotModified reports whether the client already has the response with the fields in h.
func isNotModified(r *http.Request, h http.Header) bool {
	if !isConditional(r.Header) {
		return false
	}
	asked := r.Clone(r.Context())
	delete(asked.Header, "Range")
	modified, _ := http.ParseTime(h.Get("Last-Modified"))
	probe := probe{header: h.Clone()}
	http.ServeContent(&probe, asked, "", modified, strings.NewReader(""))
	return probe.status == http.StatusNotModified
}

// probe records the status of a response.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) WriteHeader(status int)      { p.status = status }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
