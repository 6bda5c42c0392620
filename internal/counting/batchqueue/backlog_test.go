package batchqueue

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Nothing is lost silently, memory is bounded, and the oldest go first.
func TestQueue_LosesNothingUncounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := New(rapid.IntRange(1, 50).Draw(t, "most"), 1<<20)
		put, dropped, taken, last := uint64(0), uint64(0), uint64(0), time.Unix(0, 0)
		take := func(batches ...Batch) {
			for _, b := range batches {
				taken += Requests(b.Counts)
				if !b.At.After(last) {
					t.Fatalf("a batch of %v after one of %v", b.At, last)
				}
				last = b.At
			}
		}
		closed := false
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 20).Draw(t, "step") {
			case 0:
				q.Close()
				closed = true
			case 1, 2, 3:
				if b, ok := q.Next(); ok {
					take(b)
				}
			case 4:
				take(q.Take()...)
			case 5:
				dropped += q.Restore(q.Take())
			default:
				counts := make([]hottype.Count, rapid.IntRange(1, 30).Draw(t, "counts"))
				for j := range counts {
					counts[j].N = int64(j + 1)
				}
				lost, ok := q.Put(counts, time.Unix(int64(i+1), 0))
				if ok == closed {
					t.Fatalf("closed %t, and it takes: %t", closed, ok)
				}
				if ok {
					put, dropped = put+Requests(counts), dropped+lost
				}
				if n := q.Len(); !closed && n > q.maxCounts && n != len(counts) {
					t.Fatalf("%d counts wait, %d may", n, q.maxCounts)
				}
				if !closed && len(q.Ready) == 0 {
					t.Fatal("nobody would look")
				}
			}
		}
		take(q.Take()...)
		if put != dropped+taken || q.Len() != 0 || q.bytes != 0 {
			t.Fatalf("%d put, %d dropped, %d taken, %d counts left", put, dropped, taken, q.Len())
		}
	})
}

func TestQueue_DropsTheOldest(t *testing.T) {
	t.Parallel()
	q := New(5, 1<<20)
	batch := func(n ...int64) (counts []hottype.Count) {
		for _, v := range n {
			counts = append(counts, hottype.Count{Key: "k", N: v})
		}
		return counts
	}
	for _, step := range []struct {
		in      []hottype.Count
		dropped uint64
		counts  int
	}{
		{batch(1, 2), 0, 2},
		{batch(4, 8), 0, 4},
		{batch(16), 0, 5},
		{batch(32), 3, 4},
		{batch(1, 1, 1, 1, 1, 1, 1), 4 + 8 + 16 + 32, 7}, // alone it has room
	} {
		dropped, ok := q.Put(step.in, time.Time{})
		if !ok || dropped != step.dropped || q.Len() != step.counts {
			t.Fatalf("dropped %d, %d counts, want %+v", dropped, q.Len(), step)
		}
	}
}

// Long keys and client sketches fill the queue before the number of counts does.
func TestQueue_IsBoundedInBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]hottype.Count{
		"keys":    {Key: hottype.Key(strings.Repeat("x", 60<<10)), N: 2},
		"clients": {Key: "k", N: 2, Clients: &hottype.ClientSketch{Sample: make([]uint32, 15<<10)}},
	} {
		q, dropped := New(1<<20, 1<<20), uint64(0)
		for range 100 {
			n, _ := q.Put([]hottype.Count{c}, time.Time{})
			dropped += n
		}
		left := q.Take()
		if len(left) != 17 || dropped != 2*83 {
			t.Errorf("%s: %d batches of 60 KiB are left, %d requests dropped", name, len(left), dropped)
		}
		// Restored batches keep their place before the others, and are dropped first.
		q.Put([]hottype.Count{{Key: "newest", N: 1}}, time.Time{})
		if n := q.Restore(left); n != 0 && n != 2 {
			t.Errorf("%s: dropped %d", name, n)
		}
		all := q.Take()
		if last := all[len(all)-1]; last.Counts[0].Key != "newest" {
			t.Errorf("%s: the newest is %q", name, last.Counts[0].Key)
		}
	}
}
