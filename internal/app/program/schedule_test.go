package program

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

var quiet = slog.New(slog.DiscardHandler)

func TestOnSchedule_RunsAfterPanicAndError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 65*time.Second)
		defer cancel()
		runs := 0
		err := OnSchedule(ctx, "@every 10s", quiet, func(context.Context) error {
			runs++
			if runs == 1 {
				panic("once")
			}
			return errors.New("and failing")
		})
		if err != nil || runs != 6 {
			t.Errorf("%d runs, error %v; want 6, nil", runs, err)
		}
		second, done := context.WithTimeout(t.Context(), 10*time.Second)
		defer done()
		runs = 0
		if err := OnSchedule(second, "*/2 * * * * *", quiet,
			func(context.Context) error { runs++; return nil }); err != nil || runs != 5 {
			t.Errorf("a schedule with seconds: %d runs, error %v; want 5, nil", runs, err)
		}
		if err := OnSchedule(ctx, "every now and then", quiet, nil); err == nil {
			t.Error("a bad schedule is accepted")
		}
	})
}
