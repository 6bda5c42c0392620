// Package batchqueue holds batches of counts that wait for a sender, in bounded memory. Excess batches push out the
// oldest, because only the newest counts can still make a key hot.
package batchqueue

import (
	"sync"
	"time"
	"unsafe"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/wait"
)

// Queue holds batches, oldest first. It is safe for concurrent use.
type Queue struct {
	// Ready holds a token when the queue may have a batch.
	Ready chan struct{}

	maxCounts, maxBytes int

	mu      sync.Mutex // guards the fields below
	batches []Batch
	counts  int
	bytes   int
	closed  bool
}

// Batch holds the counts of one call of Put.
type Batch struct {
	Counts []hottype.Count
	At     time.Time
	bytes  int // size in memory
}

// New makes a queue of at most maxCounts counts and maxBytes bytes. The newest batch is kept whatever its size.
func New(maxCounts, maxBytes int) *Queue {
	return &Queue{maxCounts: maxCounts, maxBytes: maxBytes, Ready: make(chan struct{}, 1)}
}

// Put adds a batch and returns the number of requests that were pushed out. If the queue is closed, it takes no counts
// and returns false.
func (q *Queue) Put(counts []hottype.Count, now time.Time) (dropped uint64, ok bool) {
	b := Batch{counts, now, sizeOf(counts)}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, false
	}
	q.batches = append(q.batches, b)
	q.counts, q.bytes = q.counts+len(counts), q.bytes+b.bytes
	wait.Signal(q.Ready)
	return q.dropExcess(), true
}

// Restore puts batches of Take back, before all others. It returns the number of requests for which there is no room
// any more.
func (q *Queue) Restore(batches []Batch) (dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batches = append(batches, q.batches...)
	for _, b := range batches {
		q.counts, q.bytes = q.counts+len(b.Counts), q.bytes+b.bytes
	}
	return q.dropExcess()
}

// dropExcess drops the oldest batches and returns the number of their requests. The caller holds mu.
func (q *Queue) dropExcess() (dropped uint64) {
	for (q.counts > q.maxCounts || q.bytes > q.maxBytes) && len(q.batches) > 1 {
		dropped += Requests(q.takeFirst().Counts)
	}
	return dropped
}

// Next removes the oldest batch and reports whether there was one.
func (q *Queue) Next() (Batch, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		return Batch{}, false
	}
	return q.takeFirst(), true
}

func (q *Queue) Take() []Batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.batches
	q.batches, q.counts, q.bytes = nil, 0, 0
	return all
}

// Close rejects further batches. The present ones can still be taken.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts
}

func (q *Queue) takeFirst() Batch {
	first := q.batches[0]
	q.batches[0] = Batch{}
	q.batches = q.batches[1:]
	q.counts, q.bytes = q.counts-len(first.Counts), q.bytes-first.bytes
	return first
}

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

// Requests returns the number of requests of the counts. A count with n below 1 has no requests.
func Requests(counts []hottype.Count) uint64 {
	var n uint64
	for i := range counts {
		n += uint64(max(counts[i].N, 0))
	}
	return n
}
