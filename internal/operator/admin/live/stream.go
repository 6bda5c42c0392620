package live

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/operator/admin/web"
)

// hub passes every event to every open stream. It never waits for a client: a client whose buffer is full is dropped,
// and comes back by itself with a complete new state.
type hub struct {
	max       int
	perCaller int // so that one caller leaves places for others

	mu       sync.Mutex // guards the fields below
	running  bool
	streams  map[*stream]struct{}
	joined   int            // streams whose handlers have not returned, because they hold memory
	callers  map[string]int // the same by caller
	rejected uint64
	dropped  uint64
}

// stream is the stream of one client. Only the hub closes gone.
type stream struct {
	caller string
	events chan []byte
	gone   chan struct{}
	left   bool // its handler has returned; guarded by hub.mu
}

// streamBuffer is the number of events by which a client may lag: with one state a second about half a minute.
const streamBuffer = 32

func newHub(most int) *hub {
	return &hub{max: most, perCaller: max(1, most/4), streams: map[*stream]struct{}{}, callers: map[string]int{}}
}

func (h *hub) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = true
}

// close ends every stream and opens no new one until open is called.
func (h *hub) close() {
	h.mu.Lock()
	h.running = false
	h.mu.Unlock()
	h.endAll()
}

// endAll ends every stream. Clients may come back.
func (h *hub) endAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for st := range h.streams {
		h.endStream(st)
	}
}

// endStream ends a stream that is still in the map. The caller holds mu.
func (h *hub) endStream(st *stream) {
	delete(h.streams, st)
	close(st.gone)
}

// addStream opens a stream of a caller. It returns nil if there are too many, the caller has its share, or Run does not
// feed streams.
func (h *hub) addStream(caller string) *stream {
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

func (h *hub) removeStream(st *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.streams[st]; ok {
		h.endStream(st)
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

// send sends one event to all streams. They share the bytes, which must not change.
func (h *hub) send(event []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for st := range h.streams {
		select {
		case st.events <- event:
		default:
			h.dropped++
			h.endStream(st)
		}
	}
}

func (h *hub) readStats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{Streams: int64(len(h.streams)), StreamsRejected: h.rejected, StreamsDropped: h.dropped}
}

// writeTimeout is the maximum time of one write to a stream before the client counts as gone.
const writeTimeout = 5 * time.Second

// retryEvents sets the time that a browser waits before it comes back.
const retryEvents = "retry: 1000\n\n"

// getEvents serves the live stream: a first event with everything that a page needs to draw itself, then the state once
// a second, changes at once, and overrides whenever their list differs.
func (s *Service) getEvents(w http.ResponseWriter, r *http.Request) error {
	st := s.hub.addStream(callerOf(r))
	if st == nil {
		h := s.hub.readStats()
		s.cfg.Log.Warn("admin: an event stream was rejected", "open", h.Streams, "rejected", h.StreamsRejected)
		w.Header().Set("Retry-After", "5")
		web.WriteProblem(w, web.NewProblem(http.StatusServiceUnavailable, "no further event stream can be opened",
			"close another dashboard, or ask /v1/hot instead"))
		return nil
	}
	defer s.hub.removeStream(st)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back otherwise
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	// The first event is made after joining, so that no change is missed. A change may be both in it and in the stream,
	// which the page recognizes by its number.
	if !writeEvent(w, append([]byte(retryEvents), encodeEvent("hello", s.Init(s.cfg.Now()))...)) {
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

// callerOf returns the name of a request's caller, or the address of a caller without a name.
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
	// Not every ResponseWriter supports deadlines. Otherwise the client's own connection ends a stuck write.
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := w.Write(e); err != nil {
		return false
	}
	return rc.Flush() == nil
}
