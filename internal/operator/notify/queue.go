package notify

import "sync"

const (
	maxQueue = 1000 // events that wait for one webhook
	maxBatch = 100  // events of one message
)

// queue holds events until they are sent. When it is full the oldest event is dropped: the newest ones describe the
// current state best.
type queue struct {
	ready chan struct{} // holds one signal: there is something

	mu      sync.Mutex // guards all below
	events  []Event
	dropped uint64
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) put(e Event) {
	q.mu.Lock()
	if len(q.events) >= maxQueue {
		q.events = q.events[1:]
		q.dropped++
	}
	q.events = append(q.events, e)
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default: // one is enough
	}
}

// take removes the oldest events, at most a batch; more says that others wait.
func (q *queue) take() (batch []Event, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.events), maxBatch)
	batch, q.events = q.events[:n:n], q.events[n:]
	return batch, len(q.events) > 0
}

// drop drops all queued events, and counts those that were taken and not sent.
func (q *queue) drop(taken int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped += uint64(len(q.events) + taken)
	q.events = nil
}

func (q *queue) stats() (waiting int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.events), q.dropped
}
