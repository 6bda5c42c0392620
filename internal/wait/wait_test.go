package wait

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
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

func TestEvery(t *testing.T) {
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
