package replay

import (
	"container/heap"
	"math"
	"time"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// order sorts requests by their second. It holds them as records until no line
// within the allowed lateness can precede them.
type order struct {
	seconds map[int64]*bucket
	heap    secondHeap
	last    *bucket // where the last record went: usually that of the next one
	free    [][]byte

	size, maxSize int64
	horizon       int64 // newest second returned by next; lines not after it are late
	late          int64
	early         int64 // seconds returned because maxSize was reached
}

// bucket is one second. bucketSize is its memory beside the records.
type bucket struct {
	second  int64
	n       int
	records []byte
}

const bucketSize = 256

func newOrder(maxSize int64) *order {
	return &order{seconds: make(map[int64]*bucket), maxSize: maxSize, horizon: math.MinInt64}
}

// add adds a request, unless it is late.
func (o *order) add(e *accesslog.Entry, h *accesslog.Header) {
	if e.Second <= o.horizon {
		o.late++
		return
	}
	b := o.last
	if b == nil || b.second != e.Second {
		b = o.bucket(e.Second)
		o.last = b
	}
	before := len(b.records)
	b.records = appendRecord(b.records, e, h)
	b.n++
	o.size += int64(len(b.records) - before)
}

// bucket finds or makes the bucket of a second.
func (o *order) bucket(second int64) *bucket {
	b := o.seconds[second]
	if b == nil {
		b = &bucket{second: second}
		if n := len(o.free); n > 0 {
			b.records, o.free = o.free[n-1][:0], o.free[:n-1]
		}
		o.seconds[second] = b
		heap.Push(&o.heap, b)
		o.size += bucketSize
	}
	return b
}

// next returns the oldest second if it is before watermark, or if more than
// maxSize is held; otherwise nil. The bucket belongs to the caller until release.
func (o *order) next(watermark int64) *bucket {
	if len(o.heap) == 0 {
		return nil
	}
	if o.heap[0].second >= watermark {
		if o.size <= o.maxSize {
			return nil
		}
		o.early++
	}
	b := heap.Pop(&o.heap).(*bucket)
	delete(o.seconds, b.second)
	o.size -= int64(len(b.records)) + bucketSize
	o.horizon = b.second
	if o.last == b {
		o.last = nil
	}
	return b
}

// release keeps the memory of a few buckets for later ones; only a few, so that
// the memory of one busy hour is not kept forever.
func (o *order) release(b *bucket) {
	if len(o.free) < 16 && cap(b.records) <= 1<<20 {
		o.free = append(o.free, b.records)
	}
}

// secondHeap has the oldest second first.
type secondHeap []*bucket

func (h secondHeap) Len() int           { return len(h) }
func (h secondHeap) Less(i, j int) bool { return h[i].second < h[j].second }
func (h secondHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *secondHeap) Push(x any)        { *h = append(*h, x.(*bucket)) }
func (h *secondHeap) Pop() any {
	old := *h
	b := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return b
}

// sourceWatermark is the progress of a source by its own time: the 16th latest time
// of all its lines, 0 before there are as many. The 16th and not the latest, so
// that a few lines with a time in the future do not make all later lines late.
type sourceWatermark struct {
	latest [16]int64 // ascending
}

// add records the time of a line.
func (p *sourceWatermark) add(second int64) {
	if second <= p.latest[0] {
		return
	}
	i := 1
	for ; i < len(p.latest) && p.latest[i] < second; i++ {
		p.latest[i-1] = p.latest[i]
	}
	p.latest[i-1] = second
}

func (p *sourceWatermark) reached() int64 { return p.latest[0] }

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
