package kafka

import (
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

// queue holds batches between Send and the brokers. It is bounded in pairs:
// what is too much pushes the oldest out, because the newest counts are the
// ones that can still make a key hot. Safe for concurrent use.
type queue struct {
	most  int
	ready chan struct{} // holds a token when there may be something

	mu      sync.Mutex // guards the rest
	batches []queued   // oldest first
	pairs   int
	closed  bool
}

type queued struct {
	counts []hotparam.Count
	at     time.Time
}

func newQueue(most int) *queue {
	return &queue{most: most, ready: make(chan struct{}, 1)}
}

// put adds a batch and gives how many requests were pushed out. It reports
// false, and takes nothing, when nobody will ever read again.
func (q *queue) put(counts []hotparam.Count, now time.Time) (dropped uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, false
	}
	q.batches = append(q.batches, queued{counts, now})
	q.pairs += len(counts)
	for q.pairs > q.most && len(q.batches) > 1 { // a batch alone always has room
		dropped += requests(q.shift().counts)
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return dropped, true
}

// take gives all batches.
func (q *queue) take() []queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.batches
	q.batches, q.pairs = nil, 0
	return all
}

// close refuses what comes from now on and gives what is left.
func (q *queue) close() []queued {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	return q.take()
}

// len is the number of pairs that wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pairs
}

func (q *queue) shift() queued {
	first := q.batches[0]
	q.batches[0] = queued{}
	q.batches = q.batches[1:]
	q.pairs -= len(first.counts)
	return first
}

func requests(counts []hotparam.Count) uint64 {
	var n uint64
	for i := range counts {
		n += uint64(max(counts[i].N, 0))
	}
	return n
}
