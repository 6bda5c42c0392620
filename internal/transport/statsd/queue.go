package statsd

import (
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxQueuedBytes bounds the keys in a queue, beside the number of counts.
const maxQueuedBytes = 64 << 20

// queue holds the batches that wait for one server. It is bounded in counts and
// in bytes: what is too much pushes the oldest out, because a line has no time and would
// count in the second in which it arrives at last. Safe for concurrent use.
type queue struct {
	most  int
	ready chan struct{} // holds a token when there may be something

	mu      sync.Mutex // guards the rest
	batches []batchOut // oldest first
	counts  int
	bytes   int // of their keys
	closed  bool
}

// batchOut is what one Send brought for one server.
type batchOut struct {
	counts []hottype.Count
	at     time.Time
}

func newQueue(most int) *queue {
	return &queue{most: most, ready: make(chan struct{}, 1)}
}

// put adds a batch and gives how many requests were pushed out. A closed queue
// pushes everything out.
func (q *queue) put(b batchOut) (dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return requests(b.counts)
	}
	q.batches = append(q.batches, b)
	q.counts += len(b.counts)
	q.bytes += bytesOf(b.counts)
	for (q.counts > q.most || q.bytes > maxQueuedBytes) && len(q.batches) > 1 { // a batch alone always has room
		dropped += requests(q.shift().counts)
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return dropped
}

// next gives the oldest batch and reports whether there is one.
func (q *queue) next() (batchOut, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		return batchOut{}, false
	}
	return q.shift(), true
}

// close refuses what comes from now on. What is there can still be taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// len is the number of counts that wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts
}

func (q *queue) shift() batchOut {
	first := q.batches[0]
	q.batches[0] = batchOut{}
	q.batches = q.batches[1:]
	q.counts -= len(first.counts)
	q.bytes -= bytesOf(first.counts)
	return first
}

func bytesOf(counts []hottype.Count) (n int) {
	for i := range counts {
		n += len(counts[i].Key)
	}
	return n
}

func requests(counts []hottype.Count) (n uint64) {
	for i := range counts {
		n += uint64(max(counts[i].N, 0))
	}
	return n
}
