package gate

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// deadlines hands out contexts that end one budget from now, or up to a
// twentieth of it sooner, and never later. Decisions that begin close together
// share one: a context with a timer of its own costs more than the rest of a
// decision.
//
// They do not descend from the requests' contexts. Stores merge the calls of
// many requests into one, which must not fail because one client left.
type deadlines struct {
	budget time.Duration
	last   atomic.Pointer[deadline]
}

// deadline is one shared context.
type deadline struct {
	context.Context
	made time.Time
}

func (d *deadlines) next(now time.Time) *deadline {
	if last := d.last.Load(); last != nil && now.Sub(last.made) < d.budget/20 {
		return last
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(d.budget))
	context.AfterFunc(ctx, cancel) // its own timer ends it; nobody ends it sooner
	next := &deadline{Context: ctx, made: now}
	d.last.Store(next) // two at once make two: both hold
	return next
}

// callAside makes the call in a goroutine of its own and waits for it no longer
// than ctx. The goroutine works on copies, so that one which is left behind
// writes into nothing that the gate uses again. It ends when the store returns;
// how many may be left behind is bounded by maxHanging.
func (s *shared) callAside(ctx context.Context, now time.Time, gr *group) (bool, error) {
	if s.hanging.Load() >= maxHanging {
		return false, errHanging
	}
	c := &call{
		charges: slices.Clone(gr.charges),
		results: make([]limit.Result, len(gr.results)),
		done:    make(chan struct{}),
	}
	go c.run(ctx, now, s)
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.fate.CompareAndSwap(callRunning, callLeft) {
			s.hanging.Add(1)
			return false, fmt.Errorf("gate: shared store: %w", ctx.Err())
		}
		<-c.done // it returned at this very moment
	}
	copy(gr.results, c.results)
	return c.ok, c.err
}

// call is one call in flight. Its fields belong to the goroutine until done is
// closed.
type call struct {
	charges []limit.Charge
	results []limit.Result
	ok      bool
	err     error
	fate    atomic.Int32
	done    chan struct{}
}

// The fates of a call: it is running, it came back, or its caller left.
const (
	callRunning int32 = iota
	callBack
	callLeft
)

func (c *call) run(ctx context.Context, now time.Time, s *shared) {
	defer func() {
		// Nobody else could recover it here.
		if p := recover(); p != nil {
			c.ok, c.err = false, fmt.Errorf("gate: shared store: panic: %v", p)
		}
		if !c.fate.CompareAndSwap(callRunning, callBack) {
			s.hanging.Add(-1)
		}
		close(c.done)
	}()
	c.ok, c.err = s.store.Take(ctx, now, c.charges, c.results)
}
