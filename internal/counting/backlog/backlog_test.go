package statsd

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Nothing is lost silently, memory is bounded, and the oldest go first.
func TestQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(rapid.IntRange(1, 50).Draw(t, "most"))
		put, dropped, taken, last := uint64(0), uint64(0), uint64(0), time.Unix(0, 0)
		closed := false
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 20).Draw(t, "step") {
			case 0:
				q.close()
				closed = true
			case 1, 2, 3, 4, 5:
				if b, ok := q.next(); ok {
					taken += requests(b.counts)
					if !b.at.After(last) {
						t.Fatalf("a batch of %v after one of %v", b.at, last)
					}
					last = b.at
				}
			default:
				counts := make([]hottype.Count, rapid.IntRange(1, 30).Draw(t, "counts"))
				for j := range counts {
					counts[j].N = int64(j + 1)
				}
				put += requests(counts)
				dropped += q.put(batchOut{counts, time.Unix(int64(i+1), 0)})
				if n := q.len(); !closed && n > q.most && n != len(counts) {
					t.Fatalf("%d counts wait, %d may", n, q.most)
				}
				if !closed && len(q.ready) == 0 {
					t.Fatal("nobody would look")
				}
			}
		}
		for b, ok := q.next(); ok; b, ok = q.next() {
			taken += requests(b.counts)
		}
		if put != dropped+taken || q.len() != 0 {
			t.Fatalf("%d put, %d dropped, %d taken, %d counts left", put, dropped, taken, q.len())
		}
	})
}

// Long keys fill the queue before many counts do.
func TestQueueIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	q, dropped := newQueue(1<<20), uint64(0)
	key := hottype.Key(strings.Repeat("x", 1<<20))
	for i := range 100 {
		dropped += q.put(batchOut{[]hottype.Count{{Key: key, N: 1}}, time.Unix(int64(i), 0)})
	}
	if dropped != 36 || q.len() != 64 || q.bytes != maxQueuedBytes {
		t.Errorf("%d dropped, %d counts, %d bytes", dropped, q.len(), q.bytes)
	}
	for _, ok := q.next(); ok; _, ok = q.next() {
		continue
	}
	if q.bytes != 0 {
		t.Errorf("%d bytes in an empty queue", q.bytes)
	}
}
