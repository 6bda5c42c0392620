package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor_WaitsUntilTimeOrContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if !For(ctx, 2*time.Second) || time.Since(began) != 2*time.Second {
			t.Errorf("back after %v", time.Since(began))
		}
		if For(ctx, time.Hour) || time.Since(began) != 3*time.Second {
			t.Errorf("with a context that ended: back after %v", time.Since(began))
		}
		if For(ctx, 0) {
			t.Error("a context that ended runs")
		}
	})
}

var errTooLong = errors.New("too long")

func TestWithin_RejectsWaitsBeyondContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := Within(ctx, 3*time.Second+1, errTooLong); !errors.Is(err, errTooLong) || time.Since(began) != 0 {
			t.Errorf("longer than the context: %v after %v", err, time.Since(began))
		}
		if err := Within(ctx, -1, errTooLong); !errors.Is(err, errTooLong) {
			t.Errorf("without an end: %v", err)
		}
		if err := Within(ctx, 2*time.Second, errTooLong); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.AfterFunc(time.Second/2, cancel)
		if err := Within(ctx, time.Second, errTooLong); !errors.Is(err, context.Canceled) ||
			time.Since(began) != 2*time.Second+time.Second/2 {
			t.Errorf("canceled: %v after %v", err, time.Since(began))
		}
		if err := Within(ctx, 0, errTooLong); !errors.Is(err, context.Canceled) {
			t.Errorf("nothing to wait for: %v", err)
		}
	})
}

func TestEvery_CallsAtEachInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls, began := 0, time.Now()
		Every(ctx, time.Second, func() {
			if calls++; calls == 3 {
				cancel()
			}
		})
		if calls != 3 || time.Since(began) != 3*time.Second {
			t.Errorf("%d calls in %v", calls, time.Since(began))
		}
	})
}
