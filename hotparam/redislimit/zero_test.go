package redislimit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/redislimit"
)

// Methods of a Limiter that New has not made do not dereference nil; their errors tell the caller to use New.
func TestLimiter_ZeroValueSaysToUseNew(t *testing.T) {
	t.Parallel()
	ctx, spec := t.Context(), limit.PerSecond(1)
	fails := func(_ any, err error) error { return err }
	for _, l := range []*redislimit.Limiter{nil, {}} {
		for name, call := range map[string]func() error{
			"Allow":     func() error { return fails(l.Allow(ctx, "a", spec)) },
			"AllowN":    func() error { return fails(l.AllowN(ctx, "a", spec, 2)) },
			"AllowUpTo": func() error { return fails(l.AllowUpTo(ctx, "a", spec, 2)) },
			"Peek":      func() error { return fails(l.Peek(ctx, "a", spec)) },
			"Wait":      func() error { return l.Wait(ctx, "a", spec) },
			"Refund":    func() error { return fails(l.Refund(ctx, redislimit.Result{})) },
			"Reset":     func() error { return l.Reset(ctx, "a") },
			"Throttle":  func() error { return fails(l.Throttle(ctx, "a", 1, 1, time.Second, 1)) },
			"Store":     panics(func() { l.Store() }),
			"InFlight":  panics(func() { l.InFlight("a", 1, time.Second) }),
		} {
			if err := call(); err == nil || !strings.Contains(err.Error(), "make it with New") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, f := range []*redislimit.InFlight{nil, {}} {
		_, taken := f.Acquire(ctx, "a")
		_, released := f.Release(ctx, "a")
		for _, err := range []error{taken, released} {
			if err == nil || !strings.Contains(err.Error(), "make it with New and Limiter.InFlight") {
				t.Error(err)
			}
		}
	}
}

// panics returns a function that returns the error with which f panics.
func panics(f func()) func() error {
	return func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%v", r)
			}
		}()
		f()
		return nil
	}
}
