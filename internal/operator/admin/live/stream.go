package live

import (
	"net/http"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
)

// writeTimeout is how long one write to a stream may take before the client
// counts as gone.
const writeTimeout = 5 * time.Second

// retryEvents says to the browser how long to wait before it comes back.
const retryEvents = "retry: 1000\n\n"

// getEvents serves the live stream: a first event with all that a page needs to draw
// itself, then state once a second, changes at once, and overrides whenever
// their list differs.
func (s *Service) getEvents(w http.ResponseWriter, r *http.Request) error {
	st := s.hub.join()
	if st == nil {
		s.warnRefused(s.cfg.Now())
		w.Header().Set("Retry-After", "5")
		web.WriteProblem(w, web.NewProblem(http.StatusServiceUnavailable, "no further event stream can be opened",
			"close another dashboard, or ask /v1/hot instead"))
		return nil
	}
	defer s.hub.leave(st)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back otherwise
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	// The first event is made after joining: a change may be in it and in the stream, and
	// the page knows by its number; none is in neither.
	if !writeEvent(w, append([]byte(retryEvents), event("hello", s.Init(s.cfg.Now()))...)) {
		return nil
	}
	for {
		select {
		case e := <-st.events:
			if !writeEvent(w, e) {
				return nil
			}
		case <-st.gone:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

// warnRefused logs streams that were refused, at most once a minute: dashboards
// come back every few seconds. Stats counts all of them.
func (s *Service) warnRefused(now time.Time) {
	last := s.refusedLogged.Load()
	if now.UnixNano()-last >= int64(time.Minute) && s.refusedLogged.CompareAndSwap(last, now.UnixNano()) {
		h := s.hub.stats()
		s.cfg.Log.Warn("admin: an event stream was refused", "open", h.open, "refused", h.refused)
	}
}

// writeEvent reports whether the client took the event.
func writeEvent(w http.ResponseWriter, e []byte) bool {
	rc := http.NewResponseController(w)
	// Not every ResponseWriter knows deadlines; then the client's own
	// connection ends a stuck write.
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := w.Write(e); err != nil {
		return false
	}
	return rc.Flush() == nil
}
