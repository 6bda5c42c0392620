package tally_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/counting/tally"
)

func TestRun_FlushesOnTicksAndAtEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := &recorder{}
		ta := newTally(tally.Config{Sink: sink, Flush: 100 * time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- ta.Run(ctx) }()

		ta.Add([]byte("a"), 1, 1)
		time.Sleep(99 * time.Millisecond)
		if synctest.Wait(); sink.calls.Load() != 0 {
			t.Error("flushed too early")
		}
		time.Sleep(2 * time.Millisecond)
		if synctest.Wait(); sink.calls.Load() != 1 {
			t.Errorf("calls %d after the first tick", sink.calls.Load())
		}
		time.Sleep(1049 * time.Millisecond) // nothing to send, nothing sent
		ta.Add([]byte("b"), 2, 1)
		time.Sleep(51 * time.Millisecond)
		if synctest.Wait(); sink.calls.Load() != 2 {
			t.Errorf("calls %d at the first tick after a pause", sink.calls.Load())
		}
		ta.Add([]byte("b"), 2, 1)
		cancel()
		if err := <-done; err != nil || sink.calls.Load() != 3 {
			t.Errorf("err %v, calls %d: the last flush is missing", err, sink.calls.Load())
		}
	})
}

// A batch that the sink rejects at the very end has one more chance.
func TestRun_RetriesRejectedBatchAtEnd(t *testing.T) {
	t.Parallel()
	sink := &recorder{fail: 1}
	ta := newTally(tally.Config{Sink: sink, Flush: time.Hour})
	ta.Add([]byte("a"), 1, 7)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ta.Run(ctx); err != nil {
		t.Error(err)
	}
	if s := ta.Stats(); s.Flushed != 7 || s.DroppedSink != 0 || s.SinkErrors != 1 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}
}

// A sink that hangs costs its timeout, never more, and never blocks Add.
func TestFlush_HangingSinkBlocksNoAdd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := &recorder{block: make(chan struct{})}
		ta := newTally(tally.Config{Sink: sink, Timeout: 300 * time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- ta.Run(ctx) }()

		for range 20 {
			ta.Add([]byte("a"), 1, 1)
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		start := time.Now()
		<-done
		if took := time.Since(start); took > 900*time.Millisecond {
			t.Errorf("end took %v", took)
		}
		s := ta.Stats()
		if s.Added != 20 || s.DroppedSink != 20 || s.Flushed != 0 {
			t.Errorf("stats %+v, want all 20 dropped by the sink", s)
		}
	})
}

func TestFlush_KeepsOneBatchDuringOutage(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	sink := &recorder{fail: 4}
	ta := tally.New(tally.Config{Sink: sink, Log: slog.New(slog.NewTextHandler(&log, nil))})
	tape := []struct {
		add     string
		pending int64
		dropped uint64
		batches int
	}{
		{"a", 1, 0, 0}, // rejected, kept
		{"b", 1, 1, 0}, // a rejected again and dropped, b kept
		{"c", 1, 2, 0},
		{"d", 1, 3, 0},
		{"e", 0, 3, 2}, // works again: d, then e
	}
	for _, step := range tape {
		ta.Add([]byte(step.add), 1, 1)
		_ = ta.Flush(context.Background())
		s := ta.Stats()
		if s.Pending != step.pending || s.DroppedSink != step.dropped || len(sink.batches) != step.batches {
			t.Fatalf("after %s: %+v, %d batches, want %+v", step.add, s, len(sink.batches), step)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("want one line for the outage and one for its end, got:\n%s", log.String())
	}
}

func TestFlush_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink := &recorder{block: make(chan struct{})}
		ta := newTally(tally.Config{Sink: sink, Timeout: time.Hour})
		ta.Add([]byte("a"), 1, 1)
		first := make(chan error)
		go func() { first <- ta.Flush(context.Background()) }()
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ta.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(sink.block)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}
