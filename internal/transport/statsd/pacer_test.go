package statsd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
)

func TestPacer_SendTimeOfBatches(t *testing.T) {
	t.Parallel()
	start := time.Unix(1700000000, 0)
	for name, tc := range map[string]struct {
		total, counts, datagrams int
		due                      time.Duration
	}{
		"one datagram is no burst":          {30, 30, 1, 100 * time.Microsecond},
		"a small batch takes little":        {1000, 1000, 32, 3200 * time.Microsecond},
		"a large one takes the time":        {50000, 25000, 800, 40 * time.Millisecond},
		"and never more":                    {50000, 50000, 1600, 80 * time.Millisecond},
		"whatever the lines of a count are": {10, 10, 100000, 80 * time.Millisecond},
		"nothing":                           {0, 0, 0, 0},
	} {
		p := pacer{start: start, over: 80 * time.Millisecond, total: tc.total}
		if due := p.sendTime(tc.counts, tc.datagrams).Sub(start); due != tc.due {
			t.Errorf("%s: due after %v, want %v", name, due, tc.due)
		}
	}
}

func TestPacer_StaysInItsTimeWithoutBursts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := pacer{
			start: time.Unix(1700000000, 0),
			over:  time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "over")),
			total: rapid.IntRange(1, 1<<20).Draw(t, "total"),
		}
		counts, datagrams, last, end := 0, 0, p.start, p.start.Add(p.over)
		for counts < p.total {
			counts = min(p.total, counts+rapid.IntRange(1, p.total).Draw(t, "counts"))
			datagrams += rapid.IntRange(0, 50).Draw(t, "datagrams")
			// Held up for a while, or not; and then it waits.
			now := last.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Millisecond)).Draw(t, "held up")))
			p = p.paceFrom(now, counts, datagrams)
			due := p.sendTime(counts, datagrams)
			if due.After(end) && due.After(now) {
				t.Fatalf("due %v, now %v, end %v", due.Sub(now), now, end)
			}
			if late := now.Sub(due); late >= paceLag {
				t.Fatalf("%v of datagrams go at once", late)
			}
			if last = now; due.After(now) {
				last = due
			}
		}
	})
}

func TestWaitUntil_EndsEarlyForNextBatch(t *testing.T) {
	t.Parallel()
	waiting := []hottype.Count{{Key: "k", N: 1}}
	for name, tc := range map[string]struct {
		until  time.Duration
		meets  func(*batchqueue.Queue, context.CancelFunc)
		took   time.Duration
		onTime bool
	}{
		"the whole time":        {20 * time.Millisecond, nil, 20 * time.Millisecond, true},
		"nothing worth a timer": {paceStep - 1, nil, 0, true},
		"late already":          {-time.Second, nil, 0, true},
		"the next batch is here": {time.Second, func(q *batchqueue.Queue, _ context.CancelFunc) {
			q.Put(waiting, time.Time{})
		}, 0, false},
		"it has been taken": {20 * time.Millisecond, func(q *batchqueue.Queue, _ context.CancelFunc) {
			q.Put(waiting, time.Time{})
			q.Next()
		}, 20 * time.Millisecond, true},
		"the end": {time.Second, func(_ *batchqueue.Queue, end context.CancelFunc) { end() }, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			q, start := batchqueue.New(1, 1<<20), time.Now()
			if tc.meets != nil {
				tc.meets(q, cancel)
			}
			if onTime := waitUntil(ctx, start.Add(tc.until), q); onTime != tc.onTime || time.Since(start) != tc.took {
				t.Errorf("%s: %t after %v", name, onTime, time.Since(start))
			}
		})
	}
}
