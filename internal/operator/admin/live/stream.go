package live

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
)

// hub hands every event to every open stream. It never waits for a client: one
// whose buffer is full is dropped, and comes back by itself with a whole new
// picture.
type hub struct {
	max       int
	perCaller int // so that one leaves places for others

	mu       sync.Mutex // guards the fields below
	running  bool
	streams  map[*stream]struct{}
	joined   int            // streams whose handlers have not left, because these hold memory
	callers  map[string]int // the same by caller
	rejected uint64
	dropped  uint64
}

// stream is one client. The hub alone closes gone.
type stream struct {
	caller string
	events chan []byte
	gone   chan struct{}
	left   bool // its handler has returned; guarded by hub.mu
}

// streamBuffer is how many events a client may lag behind: with one state a
// second about half a minute.
const streamBuffer = 32

func newHub(most int) *hub {
	return &hub{max: most, perCaller: max(1, most/4), streams: map[*stream]struct{}{}, callers: map[string]int{}}
}

func (h *hub) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = true
}

// close ends every stream and lets no new one in until open.
func (h *hub) close() {
	h.mu.Lock()
	h.running = false
	h.mu.Unlock()
	h.drop()
}

// drop ends every stream; clients may come back.
func (h *hub) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for st := range h.streams {
		h.end(st)
	}
}

// end is called with mu held, for a stream that is still in the map.
func (h *hub) end(st *stream) {
	delete(h.streams, st)
	close(st.gone)
}

// join opens a stream of a caller, or returns nil when there are too many, the caller has its share, or Run does not
// feed them.
func (h *hub) join(caller string) *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running || h.joined >= h.max || h.callers[caller] >= h.perCaller {
		h.rejected++
		return nil
	}
	h.joined++
	h.callers[caller]++
	st := &stream{caller: caller, events: make(chan []byte, streamBuffer), gone: make(chan struct{})}
	h.streams[st] = struct{}{}
	return st
}

func (h *hub) leave(st *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.streams[st]; ok {
		h.end(st)
	}
	if st.left {
		return
	}
	st.left = true
	h.joined--
	if h.callers[st.caller]--; h.callers[st.caller] == 0 {
		delete(h.callers, st.caller)
	}
}

// send gives one event to all; the bytes are shared and must not change.
func (h *hub) send(event []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for st := range h.streams {
		select {
		case st.events <- event:
		default:
			h.dropped++
			h.end(st)
		}
	}
}

func (h *hub) stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{Streams: int64(len(h.streams)), StreamsRejected: h.rejected, StreamsDropped: h.dropped}
}

// writeTimeout is how long one write to a stream may take before the client
// counts as gone.
const writeTimeout = 5 * time.Second

// retryEvents says to the browser how long to wait before it comes back.
const retryEvents = "retry: 1000\n\n"

// getEvents serves the live stream: a first event with all that a page needs to draw
// itself, then state once a second, changes at once, and overrides whenever
// their list differs.
func (s *Service) getEvents(w http.ResponseWriter, r *http.Request) error {
	st := s.hub.join(callerOf(r))
	if st == nil {
		h := s.hub.stats()
		s.cfg.Log.Warn("admin: an event stream was rejected", "open", h.Streams, "rejected", h.StreamsRejected)
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

// callerOf returns the name of who sent a request, or the address of a caller without a name.
func callerOf(r *http.Request) string {
	if name := web.CallerOf(r).Name; name != "" {
		return name
	}
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return peer.Addr().String()
	}
	return "" // by a unix socket
}

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
