package gate

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

const (
	tripAfter = 5 // consecutive failures, one after the other, open the breaker
	// probeEvery is how often an open breaker lets one call try. Should that one
	// be unlucky too, the next is still within a second of the store's return.
	probeEvery = 250 * time.Millisecond
	// maxHanging bounds the goroutines that wait for a store which ignores its
	// context: while so many calls are out, no more are made.
	maxHanging = 256
)

var (
	// errHanging: the store has not returned from many earlier calls.
	errHanging = errors.New("gate: shared store: too many calls have not returned")
	// errPanic: the store panicked; the panic goes on to the caller.
	errPanic = errors.New("gate: shared store: panic")
	// errUnanswered: a shard did not say what remains when another one denied.
	errUnanswered = errors.New("gate: shared store: no answer")
	// errEcho stands for a failure that says no more than the one before.
	errEcho = errors.New("gate: shared store: failed together with another call")
)

// shared calls the shared store, bounded in time and behind a breaker for each of
// its parts, so that a dead one costs one call's budget each probeEvery and other
// requests nothing.
//
// Time is read from the clock here, not taken from the decision: what is
// bounded and measured is how long a call really takes.
type shared struct {
	store  limit.Store
	prompt bool
	ahead  Ahead // nil: the store has none
	until  deadlines
	parts  *parts
	log    *slog.Logger

	hanging atomic.Int64 // calls left behind, see aside
	calls   atomic.Uint64
	errors  atomic.Uint64
	refused atomic.Uint64
	latency latency
}

func newShared(cfg Config) *shared {
	s := &shared{store: cfg.Shared, until: deadlines{budget: cfg.Budget}, log: cfg.Log}
	if p, ok := cfg.Shared.(Prompt); ok {
		s.prompt = p.HonoursContext()
	}
	s.ahead, _ = cfg.Shared.(Ahead)
	if cfg.Budget <= 0 {
		s.until.budget = DefaultBudget
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.parts = newParts(cfg.Shared, s.log)
	return s
}

// take asks the store for the charges of a group within what is left of the
// decision's budget. For a request whose client has left already it does not
// ask; ctx is not looked at again. Where it fails, a.blamed is the part that did,
// or nil for all.
func (s *shared) take(ctx context.Context, a *ask, gr *group) (ok bool, err error) {
	a.blamed = nil
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.ahead != nil && s.ahead.TakePrefetched(gr.charges, gr.results) {
		return true, nil
	}
	if a.until != nil && a.until.Err() != nil {
		return false, a.until.Err() // an earlier call of the decision took all the time
	}
	if err := s.enter(a, gr); err != nil {
		return false, err
	}
	start := time.Now()
	if a.until == nil {
		a.until = s.until.next(start)
	}
	defer a.leave(errPanic) // unless call returns: a probe must always be answered
	ok, err = s.call(a, gr)
	s.calls.Add(1)
	s.latency.add(time.Since(start))
	if err != nil {
		s.errors.Add(1)
		s.failed(a, start, err)
	} else if !ok {
		s.unanswered(a, gr, start)
	}
	a.leave(nil)
	return ok, err
}

func (s *shared) call(a *ask, gr *group) (bool, error) {
	if s.prompt {
		return s.store.Take(a.until, a.now, gr.charges, gr.results)
	}
	return s.aside(a.until, a.now, gr)
}
