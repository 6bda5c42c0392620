package kafka

import (
	"sync"
	"time"
	"unsafe"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// queue holds batches between Send and the brokers. It is bounded in pairs and
// in bytes: what is too much pushes the oldest out, because the newest counts
// are the ones that can still make a key hot. Safe for concurrent use.
type queue struct {
	mostPairs, mostBytes int
	ready                chan struct{} // holds a token when there may be something

	mu      sync.Mutex // guards the rest
	batches []queued   // oldest first
	pairs   int
	bytes   int
	closed  bool
}

type queued struct {
	counts []hottype.Count
	bytes  int // of memory
	at     time.Time
}

func newQueue(mostPairs, mostBytes int) *queue {
	return &queue{mostPairs: mostPairs, mostBytes: mostBytes, ready: make(chan struct{}, 1)}
}

// put adds a batch and gives how many requests were pushed out. It reports
// false, and takes nothing, when nobody will ever read again.
func (q *queue) put(counts []hottype.Count, now time.Time) (dropped uint64, ok bool) {
	b := queued{counts, sizeOf(counts), now}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, false
	}
	q.batches = append(q.batches, b)
	q.pairs, q.bytes = q.pairs+len(counts), q.bytes+b.bytes
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return q.bound(), true
}

// restore puts batches back that take gave, before all others. It gives how
// many requests have no room any more.
func (q *queue) restore(batches []queued) (dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batches = append(batches, q.batches...)
	for _, b := range batches {
		q.pairs, q.bytes = q.pairs+len(b.counts), q.bytes+b.bytes
	}
	return q.bound()
}

// bound drops the oldest batches; the newest alone always has room.
func (q *queue) bound() (dropped uint64) {
	for (q.pairs > q.mostPairs || q.bytes > q.mostBytes) && len(q.batches) > 1 {
		dropped += requests(q.shift().counts)
	}
	return dropped
}

// take gives all batches.
func (q *queue) take() []queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.batches
	q.batches, q.pairs, q.bytes = nil, 0, 0
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
	q.pairs, q.bytes = q.pairs-len(first.counts), q.bytes-first.bytes
	return first
}

// sizeOf is about the memory of counts.
func sizeOf(counts []hottype.Count) int {
	n := len(counts) * int(unsafe.Sizeof(hottype.Count{}))
	for i := range counts {
		n += len(counts[i].Key)
		if c := counts[i].Clients; c != nil {
			n += int(unsafe.Sizeof(*c)) + 4*len(c.Sample) + len(c.Heavy)*int(unsafe.Sizeof(hottype.ClientCount{}))
		}
	}
	return n
}

func requests(counts []hottype.Count) uint64 {
	var n uint64
	for i := range counts {
		n += uint64(max(counts[i].N, 0))
	}
	return n
}
