package limit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/wait"
)

// ErrDeadline is the error of Wait, here and in package redislimit, if the context would end before the call may
// proceed, or the cost is above the capacity.
var ErrDeadline = errors.New("the wait would be longer than the context")

// Wait takes all charges together, and returns when the caller may proceed. If ctx would end sooner, Wait returns
// ErrDeadline at once; if ctx ends meanwhile, Wait returns its error. In both cases it has taken nothing. Other errors
// come from Take.
//
// With a Spec.Wait a caller takes its turn at once, and callers proceed in the order in which they came. Without a
// Spec.Wait, or if its queue is full, Wait tries again when the charges would fit, and a later caller may be first.
// Unlike the rest of the package it reads the clock.
func (m *Memory) Wait(ctx context.Context, charges []Charge) error {
	results := make([]Result, len(charges))
	for {
		now := time.Now()
		allowed, err := m.Take(ctx, now, charges, results)
		if err != nil {
			return err
		}
		if err := wait.Within(ctx, pauseTime(charges, results, allowed), ErrDeadline); err != nil {
			if allowed {
				m.RefundAt(now, charges)
			}
			return fmt.Errorf("limit: wait: %w", err)
		}
		if allowed {
			return nil
		}
	}
}

// pauseTime returns the time until the caller of an allowed request may proceed, or until the caller of a denied
// request may try again, or hottype.Never.
func pauseTime(charges []Charge, results []Result, allowed bool) (longest time.Duration) {
	for i := range charges {
		d := results[i].RetryAfter
		if d == hottype.Never {
			return d
		}
		if allowed {
			d = charges[i].Wait(&results[i])
		}
		longest = max(longest, d)
	}
	return longest
}
