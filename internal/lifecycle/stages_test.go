package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var quiet = slog.New(slog.DiscardHandler)

// diary notes what happened in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, s)
}

// part runs until its context ends, then takes a while to hand over.
func (d *diary) part(name string, takes time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(takes) // of the fake clock
		d.note(name)
		return nil
	}
}

func TestStagesStopFromSourcesToSinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		var s Stages
		s.Add(Sinks, "sink", d.part("sink", 0))
		s.Add(Buffers, "sum", d.part("sum", 2*time.Second))
		s.Add(Sources, "source", d.part("source", 3*time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if err := s.Run(ctx, 10*time.Second, quiet); err != nil {
			t.Fatal(err)
		}
		if want := []string{"source", "sum", "sink"}; !slices.Equal(d.lines, want) {
			t.Errorf("stopped %v, want %v", d.lines, want)
		}
	})
}

func TestAFailingPartStopsTheProgram(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d diary
		var s Stages
		s.Add(Sources, "port", func(context.Context) error { return errors.New("in use") })
		s.Add(Sinks, "sink", d.part("sink", 0))
		err := s.Run(t.Context(), time.Second, quiet)
		if err == nil || err.Error() != "port: in use" || len(d.lines) != 1 {
			t.Errorf("error %v, stopped %v", err, d.lines)
		}
	})
}

func TestASourceMayEndButASinkMayNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s Stages
		s.Add(Sources, "standard input", func(context.Context) error { return nil })
		s.Add(Sinks, "sink", func(ctx context.Context) error {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			return nil
		})
		err := s.Run(t.Context(), time.Second, quiet)
		if err == nil || !strings.Contains(err.Error(), "sink: stopped by itself") {
			t.Errorf("error %v", err)
		}
	})
}

func TestAPartThatHangsIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var s Stages
		s.Add(Buffers, "hangs", func(context.Context) error { <-release; return nil })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		err := s.Run(ctx, 5*time.Second, quiet)
		if err == nil || time.Since(start) != 5*time.Second {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
		close(release)
	})
}
