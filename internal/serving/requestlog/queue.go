package requestlog

import "sync/atomic"

// queue passes lines from the goroutines of requests to one writer. put never blocks.
type queue struct {
	lines   chan []byte
	dropped atomic.Uint64 // lines that found the queue full
}

func (q *queue) put(line []byte) {
	select {
	case q.lines <- line:
	default:
		q.dropped.Add(1)
	}
}
