package gate

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

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
	// errEcho stands for a failure that says no more than the one before.
	errEcho = errors.New("gate: shared store: failed together with another call")
)

// shared calls the shared store, bounded in time and behind a breaker, so that
// a dead store costs one call's budget each probeEvery and other requests
// nothing.
//
// Time is read from the clock here, not taken from the decision: what is
// bounded and measured is how long a call really takes.
type shared struct {
	store   limit.Store
	prompt  bool
	until   deadlines
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	log     *slog.Logger

	hanging atomic.Int64 // calls left behind, see aside
	failed  atomic.Int64 // when a failure was last counted by the breaker, since born
	born    time.Time
	cause   atomic.Pointer[failure] // the last one
	since   atomic.Int64            // when the breaker opened, since born
	calls   atomic.Uint64
	errors  atomic.Uint64
	refused atomic.Uint64
	opened  atomic.Uint64
	closed  atomic.Uint64
	latency latency
}

// failure is why a call failed.
type failure struct{ err error }

func newShared(cfg Config) *shared {
	s := &shared{store: cfg.Shared, until: deadlines{budget: cfg.Budget}, log: cfg.Log, born: time.Now()}
	if p, ok := cfg.Shared.(Prompt); ok {
		s.prompt = p.HonoursContext()
	}
	if cfg.Budget <= 0 {
		s.until.budget = DefaultBudget
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: "shared store", MaxRequests: 1, Timeout: probeEvery,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		OnStateChange: s.switched,
		IsExcluded:    innocent,
	})
	return s
}

// innocent are the errors that are no sign of a failing store.
func innocent(err error) bool {
	return errors.Is(err, limit.ErrCost) || errors.Is(err, limit.ErrCharges) || errors.Is(err, errEcho)
}

// switched counts and logs a change of the breaker. An outage toggles it
// between open and half open twice a second, so only its beginning and its end
// are worth an operator's eye.
func (s *shared) switched(_ string, from, to gobreaker.State) {
	switch {
	case from == gobreaker.StateClosed:
		s.opened.Add(1)
		s.since.Store(int64(time.Since(s.born)))
		err := errPanic
		if f := s.cause.Load(); f != nil {
			err = f.err
		}
		s.log.Warn("gate: shared store fails, deciding by on_store_failure", "consecutive_failures", tripAfter, "error", err)
	case to == gobreaker.StateClosed:
		s.closed.Add(1)
		out := time.Since(s.born) - time.Duration(s.since.Load())
		s.log.Info("gate: shared store answers again", "after", out.Round(time.Millisecond))
	default:
		s.log.Debug("gate: shared store breaker", "from", from.String(), "to", to.String())
	}
}

// take asks the store for the charges of a group within what is left of the
// decision's budget. For a request whose client has left already it does not
// ask; ctx is not looked at again.
func (s *shared) take(ctx context.Context, a *ask, gr *group) (ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	done, err := s.breaker.Allow()
	if err != nil {
		s.refused.Add(1)
		return false, err
	}
	start := time.Now()
	if a.until == nil {
		a.until = s.until.next(start)
	}
	fate := errPanic // unless call returns: a probe must always be answered
	defer func() { done(fate) }()
	ok, err = s.call(a, gr)
	s.calls.Add(1)
	s.latency.add(time.Since(start))
	if fate = err; err != nil {
		s.errors.Add(1)
		s.cause.Store(&failure{err})
		if s.echo(start) {
			fate = errEcho
		}
	}
	return ok, err
}

// echo is whether a call that failed began before the end of another that did.
// A store that hesitates once fails all calls that are out, under load dozens:
// that is one failure and no reason to open the breaker, which costs every limit
// probeEvery of judging by shares.
func (s *shared) echo(start time.Time) bool {
	if s.breaker.State() != gobreaker.StateClosed {
		return false // a probe has no others beside it
	}
	began, now := int64(start.Sub(s.born)), int64(time.Since(s.born))
	for {
		last := s.failed.Load()
		if began < last {
			return true
		}
		if s.failed.CompareAndSwap(last, now) {
			return false
		}
	}
}

func (s *shared) call(a *ask, gr *group) (bool, error) {
	if s.prompt {
		return s.store.Take(a.until, a.now, gr.charges, gr.results)
	}
	return s.aside(a.until, a.now, gr)
}

// open is whether calls are being refused, or are about to be tried again.
func (s *shared) open() bool { return s.breaker.State() != gobreaker.StateClosed }
