package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/wait"
)

// A gap between two beats is a standstill for a second after its end, whether Beat or Recent notices the end first; the
// time in which the process runs is not a standstill.
func TestStandstill_NoticesAGapAndForgetsIt(t *testing.T) {
	t.Parallel()
	for _, beatFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var s wait.Standstill
			s.Beat()
			recent := func(want bool, when string) {
				t.Helper()
				if got := s.Recent(); got != want {
					t.Errorf("beat first %v, %s: %v", beatFirst, when, got)
				}
			}
			recent(false, "at the start")
			time.Sleep(500 * time.Millisecond)
			recent(false, "after a moment")
			time.Sleep(100 * time.Millisecond)
			if beatFirst {
				s.Beat()
			}
			recent(true, "after 600 ms")
			s.Beat()
			for range 9 {
				time.Sleep(100 * time.Millisecond)
				s.Beat()
				recent(true, "while it settles")
			}
			time.Sleep(100 * time.Millisecond)
			s.Beat()
			recent(false, "a second later")
		})
	}
}

// A process that runs, and one that has ended, does not stand still.
func TestStandstill_RunNoticesNothingByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s wait.Standstill
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for range 100 {
			time.Sleep(77 * time.Millisecond)
			if s.Recent() {
				t.Fatal("it runs and is taken for one that stood still")
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if s.Recent() || (*wait.Standstill)(nil).Recent() {
			t.Error("without Run a standstill is noticed")
		}
	})
}
