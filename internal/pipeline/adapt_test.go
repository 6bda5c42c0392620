package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/pipeline"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// bases is a store that fails while err is set.
type bases struct {
	text   atomic.Pointer[string]
	err    atomic.Pointer[error]
	writes atomic.Int64
}

func (b *bases) failure() error {
	if err := b.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (b *bases) ReadBases(context.Context) ([]byte, error) {
	if text := b.text.Load(); text != nil {
		return []byte(*text), b.failure()
	}
	return nil, b.failure()
}

func (b *bases) WriteBases(_ context.Context, text []byte) error {
	b.writes.Add(1)
	if err := b.failure(); err != nil {
		return err
	}
	s := string(text)
	b.text.Store(&s)
	return nil
}

// TestAdaptation_KeepsBases runs the controllers of a quiet site, whose store fails at first and then works: the log
// has one line, and the base latency is stored once.
func TestAdaptation_KeepsBases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, err := rules.Parse("test.yaml", []byte("rules: [{name: topic, match: {path: /topic}, params: [id], "+
			"hot: {rate: 10}, limit: {adaptive: true, min: 1, max: 100}}]"))
		if err != nil {
			t.Fatal(err)
		}
		var latency adaptive.Histogram
		for range 100 {
			latency.Add(40 * time.Millisecond)
		}
		store, log := new(bases), new(redistest.Log)
		broken := errors.New("the disk is full")
		store.err.Store(&broken)
		a := pipeline.Adaptation{Now: time.Now, Rules: func() *rules.Set { return set }, Hot: new(hotset.Replica),
			Read: func(now time.Time) []report.Limiter {
				return []report.Limiter{{Instance: "a", At: now, Upstreams: []report.Upstream{{Name: "default", Seconds: 1,
					OK: 100, Cold: 100, InFlight: 4, Latency: latency.Pairs(), LatencySum: latency.Mean() * 100}}}}
			},
			Apply: func(time.Time, []hottype.UpstreamLimit) {}, Bases: store, Log: log.Logger()}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		time.Sleep(time.Minute)
		if n := strings.Count(log.String(), "is not kept"); n != 1 || !strings.Contains(log.String(), broken.Error()) {
			t.Errorf("%d lines of the broken store: %s", n, log)
		}
		store.err.Store(nil)
		time.Sleep(time.Minute)
		if text := store.text.Load(); text == nil || !strings.Contains(*text, `"default":{"seconds":0.0`) {
			t.Errorf("stored: %v", text)
		}
		if n := store.writes.Load(); n != 1 {
			t.Errorf("%d writes", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
