// Package batchqueue holds batches of counts that wait for a sender, in bounded memory. What
// is too much pushes the oldest out: the newest counts are the ones that can still make a
// key hot.
package batchqueue

import (
	"sync"
	"time"
	"unsafe"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/wait"
)

// Queue holds batches, oldest first. Safe for concurrent use.
type Queue struct {
	// Ready holds a token when there may be something.
	Ready chan struct{}

	maxCounts, maxBytes int

	mu      sync.Mutex // guards the rest
	batches []Batch
	counts  int
	bytes   int
	closed  bool
}

// Batch is what one call of Put brought.
type Batch struct {
	Counts []hottype.Count
	At     time.Time
	bytes  int // of memory
}

// New makes a queue of at most so many counts and bytes. The newest batch is kept whatever its size.
func New(maxCounts, maxBytes int) *Queue {
	return &Queue{maxCounts: maxCounts, maxBytes: maxBytes, Ready: make(chan struct{}, 1)}
}

// Put adds a batch and gives how many requests were pushed out. It reports false, and
// takes nothing, when the queue is closed.
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

// Restore puts batches back that Take gave, before all others. It gives how many requests
// do not fit any more.
func (q *Queue) Restore(batches []Batch) (dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batches = append(batches, q.batches...)
	for _, b := range batches {
		q.counts, q.bytes = q.counts+len(b.Counts), q.bytes+b.bytes
	}
	return q.dropExcess()
}

// dropExcess drops the oldest batches. The lock is held.
func (q *Queue) dropExcess() (dropped uint64) {
	for (q.counts > q.maxCounts || q.bytes > q.maxBytes) && len(q.batches) > 1 {
		dropped += Requests(q.shift().Counts)
	}
	return dropped
}

// Next takes the oldest batch out and reports whether there is one.
func (q *Queue) Next() (Batch, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		return Batch{}, false
	}
	return q.shift(), true
}

func (q *Queue) Take() []Batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.batches
	q.batches, q.counts, q.bytes = nil, 0, 0
	return all
}

// Close rejects what comes from now on. What is there can still be taken.
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

func (q *Queue) shift() Batch {
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

// Requests is how many requests counts stand for. One with n below 1 stands for none.
func Requests(counts []hottype.Count) uint64 {
	var n uint64
	for i := range counts {
		n += uint64(max(counts[i].N, 0))
	}
	return n
}
