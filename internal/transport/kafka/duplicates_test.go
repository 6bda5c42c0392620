package kafka

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
)

func TestDuplicates_RecogniseRepetitions(t *testing.T) {
	t.Parallel()
	s := newDuplicates(10)
	o := origin{"a", 1}
	for _, step := range []struct {
		o     origin
		n     uint64
		first bool
	}{
		{o, 1, true}, {o, 1, false}, {o, 3, true}, {o, 2, true}, {o, 2, false}, {o, 3, false},
		{origin{"a", 2}, 1, true}, // started again
		{origin{"b", 1}, 1, true},
		{o, 258, true}, {o, 3, false}, {o, 4, true}, {o, 2, false}, // 2 is 256 back
		{o, 1000, true}, {o, 258, false}, {o, 744, false}, {o, 745, true},
		{o, 0, true}, {o, 0, true}, // no number
	} {
		if got := s.addIfNew(step.o, step.n); got != step.first {
			t.Errorf("%v %d: got %v", step.o, step.n, got)
		}
	}
}

// In order with gaps and repetitions, as a partition delivers: exactly the
// repetitions are recognised.
func TestDuplicates_AgreeWithASet(t *testing.T) {
	t.Parallel()
	s, set := newDuplicates(100), map[uint64]bool{}
	for at := uint64(1); at < 100000; at += rand.Uint64N(3) * rand.Uint64N(100) {
		for range 1 + rand.IntN(3) {
			n := at - min(at-1, rand.Uint64N(256))
			if got := s.addIfNew(origin{}, n); got == set[n] {
				t.Fatalf("%d: first=%v, seen=%v", n, got, set[n])
			}
			set[n] = true
			at = max(at, n)
		}
	}
}

func TestDuplicates_AreBounded(t *testing.T) {
	t.Parallel()
	s := newDuplicates(100)
	kept := origin{"kept", 0}
	for i := range uint64(10000) {
		s.addIfNew(origin{fmt.Sprint(i), 0}, 1)
		if i%20 == 0 { // in use, so never forgotten
			s.addIfNew(kept, i/20+1)
		}
	}
	if n := len(s.young) + len(s.old); n > 101 {
		t.Errorf("%d origins are remembered", n)
	}
	if s.addIfNew(kept, 1+9980/20) {
		t.Error("an origin in use was forgotten")
	}
}

func TestUnconfirmed_DropsTheOldest(t *testing.T) {
	t.Parallel()
	var dropped atomic.Uint64
	f := &unconfirmed{mostPairs: 10, mostBytes: 1000, dropped: &dropped}
	for i := range 5 {
		f.add(packed{pairs: 3, requests: 1 << i, data: make([]byte, 10)})
	}
	f.dropExcess()
	if len(f.records) != 3 || f.waiting.Load() != 9 || dropped.Load() != 1+2 {
		t.Errorf("%d records, %d pairs, %d dropped", len(f.records), f.waiting.Load(), dropped.Load())
	}
	f.add(packed{pairs: 1, requests: 64, data: make([]byte, 999)})
	f.dropExcess()
	if len(f.records) != 1 || dropped.Load() != 1+2+4+8+16 {
		t.Errorf("%d records, %d dropped", len(f.records), dropped.Load())
	}
	f.dropIf(func(packed) bool { return true })
	if len(f.records) != 0 || f.waiting.Load() != 0 || dropped.Load() != 127-32 {
		t.Errorf("%d records, %d pairs, %d dropped", len(f.records), f.waiting.Load(), dropped.Load())
	}
}

func TestProducer_DropsOldBatches(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p, err := NewProducer(ProducerConfig{
		Config: Config{Brokers: []string{"127.0.0.1:1"}, Topic: "t", Log: slog.New(slog.DiscardHandler)},
		Now:    func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		_ = p.Send(t.Context(), []hottype.Count{{Key: "k", N: 2}})
		now = now.Add(time.Second)
	}
	if left := p.dropOld(p.queue.Take(), now.Add(-p.cfg.MaxAge)); len(left) != 10 || p.Stats().Dropped != 20 {
		t.Errorf("%d left, %+v", len(left), p.Stats())
	}
}

func TestPacker_SplitsLargeBatches(t *testing.T) {
	t.Parallel()
	var counts []hottype.Count
	for i := range 4000 {
		counts = append(counts, hottype.Count{Key: hottype.Key(fmt.Sprintf("%01000d", i)), N: 1})
	}
	counts = append(counts, hottype.Count{}, hottype.Count{Key: "k", N: -1})
	records, invalid := newPacker("n", "s", 1).packRecords([]batchqueue.Batch{{Counts: counts}}, 2, maxRecord)
	if len(records) < 8 || invalid != 2 {
		t.Fatalf("%d records, %d invalid", len(records), invalid)
	}
	next, total := map[int32]uint64{}, 0
	for _, r := range records {
		got, err := ParseRecord(r.data)
		next[r.partition]++
		if err != nil || len(r.data) > maxRecord || got.Sequence != next[r.partition] ||
			r.requests != uint64(len(got.Counts)) {
			t.Fatalf("%v, %d bytes, sequence %d", err, len(r.data), got.Sequence)
		}
		total += len(got.Counts)
	}
	if total != 4000 {
		t.Errorf("%d pairs", total)
	}
}
