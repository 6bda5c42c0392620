// Package wait waits for time to pass, or for a context to end.
package wait

import (
	"context"
	"time"
)

// For waits for d or until ctx ends, and reports whether ctx still runs.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Within waits like For and returns the error of ctx, if ctx ends meanwhile. If ctx would end sooner it returns tooLong
// at once. A negative d has no end.
func Within(ctx context.Context, d time.Duration, tooLong error) error {
	if deadline, ok := ctx.Deadline(); d < 0 || ok && time.Until(deadline) < d {
		return tooLong
	}
	if d > 0 {
		For(ctx, d)
	}
	return ctx.Err()
}

// ForHint waits like For, and ends early at a hint.
func ForHint(ctx context.Context, d time.Duration, hints <-chan struct{}) (hinted bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-hints:
		return true
	}
	return false
}

// Signal sends a signal to a channel that has room for one; a signal that waits there already is enough.
func Signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// Every calls f at each tick until ctx ends. Ticks during a call of f are merged into one tick.
func Every(ctx context.Context, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}
