package tally_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type pair struct {
	key    hottype.Key
	second int64
}

// recorder is a sink that remembers batches. It fails fail times.
type recorder struct {
	mu      sync.Mutex
	fail    int
	calls   atomic.Int64
	batches [][]hottype.Count
	block   chan struct{} // when set, Send waits for it or for its ctx
}

func (r *recorder) Send(ctx context.Context, counts []hottype.Count) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls.Add(1)
	if r.block != nil {
		select {
		case <-r.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if r.fail > 0 {
		r.fail--
		return errors.New("sink is away")
	}
	r.batches = append(r.batches, counts)
	return nil
}

// sums adds up all batches; a pair twice in one batch is an error.
func (r *recorder) sums(t interface{ Fatalf(string, ...any) }) map[pair]int64 {
	all := map[pair]int64{}
	for _, b := range r.batches {
		seen := map[pair]bool{}
		for _, c := range b {
			p := pair{c.Key, c.Second}
			if seen[p] || c.N <= 0 {
				t.Fatalf("batch has %v again, or n=%d", p, c.N)
			}
			seen[p] = true
			all[p] += c.N
		}
	}
	return all
}

func newTally(cfg tally.Config) *tally.Tally {
	cfg.Log = slog.New(slog.DiscardHandler)
	return tally.New(cfg)
}

// The sums that leave are the sums that were added, for all pairs and at all times of the flushes.
func TestTally_SumsOutAreSumsIn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sink := &recorder{}
		ta := newTally(tally.Config{Sink: sink})
		want := map[pair]int64{}
		var added uint64
		for range rapid.IntRange(0, 400).Draw(t, "adds") {
			p := pair{
				hottype.Key(rapid.StringN(0, 3, -1).Draw(t, "key")),
				rapid.Int64Range(-2, 2).Draw(t, "second"),
			}
			n := rapid.Int64Range(-1, 5).Draw(t, "n")
			ta.Add([]byte(p.key), p.second, n)
			if n > 0 {
				want[p] += n
				added += uint64(n)
			}
			if rapid.IntRange(0, 50).Draw(t, "flush") == 0 {
				_ = ta.Flush(context.Background())
			}
		}
		_ = ta.Flush(context.Background())
		got := sink.sums(t)
		if len(got) != len(want) {
			t.Fatalf("got %d pairs, want %d", len(got), len(want))
		}
		for p, n := range want {
			if got[p] != n {
				t.Fatalf("%v: got %d, want %d", p, got[p], n)
			}
		}
		if s := ta.Stats(); s.Added != added || s.Flushed != added || s.Keys != 0 {
			t.Fatalf("stats %+v, want %d added and flushed", s, added)
		}
	})
}

// The places of pairs depend on a seed of the process. The test has enough pairs that some are found behind others.
func TestTally_KeepsSecondsApart(t *testing.T) {
	t.Parallel()
	sink := &recorder{}
	ta := newTally(tally.Config{Sink: sink})
	want := map[pair]int64{}
	for i := range 3000 {
		p := pair{hottype.Key(fmt.Sprint("topic?id=", i%100)), int64(i/100%10) - 5}
		ta.Add([]byte(p.key), p.second, int64(i))
		if i > 0 {
			want[p] += int64(i)
		}
	}
	_ = ta.Flush(context.Background())
	if got := sink.sums(t); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Many goroutines, a full table, a sink that fails now and then: every request
// is in exactly one of the counters, and the sums out never exceed the sums in.
func TestTally_LosesNothingUncounted(t *testing.T) {
	t.Parallel()
	sink := &recorder{fail: 9}
	ta := newTally(tally.Config{Sink: sink, MaxKeys: 500, Flush: time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- ta.Run(ctx) }()

	const workers, each, hot = 8, 20000, 10
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				key := fmt.Appendf(nil, "hot?id=%d", i%hot)
				if i%3 == 0 {
					key = fmt.Appendf(nil, "cold?id=%d.%d", w, i)
				}
				ta.Add(key, int64(i/5000), 2)
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	s := ta.Stats()
	if s.Added != workers*each*2 {
		t.Errorf("added %d, want %d", s.Added, workers*each*2)
	}
	if s.Added != s.Flushed+s.DroppedFull+s.DroppedSink || s.Keys != 0 || s.Pending != 0 {
		t.Errorf("does not add up: %+v", s)
	}
	var out uint64
	for p, n := range sink.sums(t) {
		out += uint64(n)
		if strings.HasPrefix(string(p.key), "cold") && n != 2 {
			t.Errorf("%v: %d, want 2", p, n)
		}
	}
	if out != s.Flushed {
		t.Errorf("sink got %d, flushed says %d", out, s.Flushed)
	}
}

func TestTally_WhenFullDropsOnlyNewKeys(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]tally.Config{
		"keys":  {MaxKeys: 100},
		"bytes": {MaxBytes: 100 * len("k?id=000")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := &recorder{}
			cfg.Sink = sink
			ta := newTally(cfg)
			for range 2 {
				for i := range 150 {
					ta.Add(fmt.Appendf(nil, "k?id=%03d", i), 1, 1)
				}
			}
			if s := ta.Stats(); s.Keys != 100 || s.DroppedFull != 100 {
				t.Fatalf("stats %+v, want 100 keys and 100 dropped", s)
			}
			_ = ta.Flush(context.Background())
			if s := ta.Stats(); s.Keys != 0 || s.Flushed != 200 {
				t.Fatalf("stats %+v, want 200 flushed", s)
			}
			ta.Add([]byte("again"), 1, 1) // there is room again
			if s := ta.Stats(); s.Keys != 1 {
				t.Fatalf("stats %+v after the flush", s)
			}
		})
	}
}

func TestAdd_StopsAtLargestSum(t *testing.T) {
	t.Parallel()
	sink := &recorder{}
	ta := newTally(tally.Config{Sink: sink})
	for range 3 {
		ta.Add([]byte("k"), 1, math.MaxInt64)
	}
	_ = ta.Flush(context.Background())
	if got := sink.batches[0][0].N; got != math.MaxInt64 {
		t.Fatalf("got %d", got)
	}
}

func TestAdd_DoesNotAllocate(t *testing.T) {
	ta := newTally(tally.Config{Sink: discard{}})
	key := []byte("topic?id=42")
	second := int64(0)
	ta.Add(key, second, 1)
	if n := testing.AllocsPerRun(1000, func() { ta.Add(key, second, 1) }); n != 0 {
		t.Errorf("known key: %v allocations", n)
	}
}
