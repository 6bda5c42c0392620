package live

import "sync"

// hub hands every event to every open stream. It never waits for a client: one
// whose buffer is full is dropped, and comes back by itself with a whole new
// picture.
type hub struct {
	max int

	mu      sync.Mutex // guards the fields below
	running bool
	streams map[*stream]struct{}
	refused uint64
	dropped uint64
}

// stream is one client. The hub alone closes gone.
type stream struct {
	events chan []byte
	gone   chan struct{}
}

// streamBuffer is how many events a client may lag behind: with one state a
// second about half a minute.
const streamBuffer = 32

type hubStats struct {
	open             int64
	refused, dropped uint64
}

func newHub(max int) *hub {
	return &hub{max: max, streams: map[*stream]struct{}{}}
}

func (h *hub) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = true
}

// close ends every stream and lets no new one in until open.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = false
	h.endAll()
}

// drop ends every stream; clients may come back.
func (h *hub) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endAll()
}

// endAll is called with mu held.
func (h *hub) endAll() {
	for st := range h.streams {
		h.end(st)
	}
}

// end is called with mu held, for a stream that is still in the map.
func (h *hub) end(st *stream) {
	delete(h.streams, st)
	close(st.gone)
}

// join opens a stream, or returns nil when there are too many or Run does not feed
// them.
func (h *hub) join() *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running || len(h.streams) >= h.max {
		h.refused++
		return nil
	}
	st := &stream{events: make(chan []byte, streamBuffer), gone: make(chan struct{})}
	h.streams[st] = struct{}{}
	return st
}

func (h *hub) leave(st *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.streams[st]; ok {
		h.end(st)
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

func (h *hub) stats() hubStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return hubStats{open: int64(len(h.streams)), refused: h.refused, dropped: h.dropped}
}
