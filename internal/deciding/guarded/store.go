// Package guarded calls a store that may fail. Each call is bounded in time, and a circuit breaker for each server
// keeps an outage from costing more than one call's budget every quarter of a second. The package deals with limits and
// servers, but not with rules or verdicts.
package guarded

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// SharedStore keeps the limits that processes share. Its subjects are spread over shards, on one server or on several
// that fail independently, as in a cluster. A store on one server has one shard.
//
// Take returns when its context's deadline passes, whatever the network does, because the caller has no timer of its
// own. limittest.RunDeadline checks that.
//
// An error of Take that has a method FailedShard() int, itself or in an error that it wraps, names the shard that
// failed. Other errors count against all shards of the call. If one shard denies and another one fails, Take denies,
// and Remaining is -1 in the results of the failed shard.
type SharedStore interface {
	limit.Store
	// Shards returns the number of shards. It is constant.
	Shards() int
	// Shard returns the shard of a subject, from 0. It is constant.
	Shard(*limit.Subject) int
	// Server returns the name of the server that a shard is on, as far as it is known now, or "" if it is unknown. It
	// neither waits nor makes a call.
	Server(shard int) string
}

// Store calls a SharedStore. It reads the clock itself, because it bounds and measures the duration of calls; decisions
// are made by the time that Take gets. Any number of goroutines may use it.
type Store struct {
	store    SharedStore
	timeouts timeouts
	breakers *breakers

	calls   atomic.Uint64
	errors  atomic.Uint64
	skipped atomic.Uint64
	latency latency
}

// NewStore returns a Store that guards store. budget bounds all calls of one decision.
func NewStore(store SharedStore, budget time.Duration, log *slog.Logger) *Store {
	bs := &breakers{store: store, log: log, born: time.Now(), tripAfter: storeTripAfter,
		of: make([]atomic.Pointer[breaker], max(1, store.Shards()))}
	whole := bs.newBreaker("")
	for i := range bs.of {
		bs.of[i].Store(whole)
	}
	return &Store{store: store, timeouts: timeouts{budget: budget}, breakers: bs}
}

// Call is the state of the calls of one decision, which share its budget. It belongs to one goroutine. The zero value
// is ready.
type Call struct {
	timeout *timeout // of all calls; nil before the first
	failed  *breaker // of the server that failed the last call; nil if it may be any
	permits []permit // of the call in progress
}

// Reset prepares for the next decision.
func (c *Call) Reset() { *c = Call{permits: c.permits} }

// Take asks the store within the rest of the decision's budget. If ctx has ended, the client has left, and the store is
// not asked. The call itself does not end with ctx.
func (s *Store) Take(ctx context.Context, c *Call, now time.Time, charges []limit.Charge, results []limit.Result) (
	ok bool, err error) {
	c.failed = nil
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if c.timeout != nil && c.timeout.Err() != nil {
		return false, c.timeout.Err() // an earlier call of the decision took all the time
	}
	if err := s.acquire(c, charges); err != nil {
		return false, err
	}
	start := time.Now()
	if c.timeout == nil {
		c.timeout = s.timeouts.nextTimeout(start)
	}
	defer c.finish(errPanic) // unless Take returns: gobreaker waits for the outcome of a probe
	ok, err = s.store.Take(c.timeout, now, charges, results)
	s.calls.Add(1)
	s.latency.add(time.Since(start))
	if err != nil {
		s.errors.Add(1)
		s.recordFailure(c, start, err)
	} else if !ok {
		s.recordFailedShards(c, charges, results, start)
	}
	c.finish(nil)
	return ok, err
}

// Failed reports whether a charge is on the server that failed the last call. It returns true for all charges if the
// server is unknown.
func (s *Store) Failed(c *Call, charge *limit.Charge) bool {
	return c.failed == nil || s.breakers.of[s.breakers.shardOf(charge)].Load() == c.failed
}

// permit is a breaker's permission to call its server. done reports the outcome to the breaker.
type permit struct {
	breaker *breaker
	shard   int         // a shard of the breaker that is called
	done    func(error) // nil after it was called
}

// acquire asks the breakers of all servers that the charges are on. If a breaker is open, its server is recorded as the
// failed one.
func (s *Store) acquire(c *Call, charges []limit.Charge) error {
	for i := range charges {
		shard := s.breakers.shardOf(&charges[i])
		b := s.breakers.of[shard].Load()
		if c.findPermit(b) != nil {
			continue
		}
		done, err := b.circuit.Allow()
		if err != nil {
			s.skipped.Add(1)
			c.failed = b
			c.finish(errSameFailure)
			return err
		}
		c.permits = append(c.permits, permit{b, shard, done})
	}
	return nil
}

// findPermit returns the permit of a breaker, or nil if there is none.
func (c *Call) findPermit(b *breaker) *permit {
	for i := range c.permits {
		if c.permits[i].breaker == b {
			return &c.permits[i]
		}
	}
	return nil
}

// finish reports the outcome of the call to one breaker, once.
func (p *permit) finish(outcome error) {
	if done := p.done; done != nil {
		p.done = nil
		done(outcome)
	}
}

// finish reports the outcome to all breakers that do not have it yet.
func (c *Call) finish(outcome error) {
	for i := range c.permits {
		c.permits[i].finish(outcome)
	}
	c.permits = c.permits[:0] // the pointers to breakers that remain are harmless
}

// Guard bounds calls other than Take. It has a breaker of its own, which opens after one failure, because these calls
// have no second chance within a decision.
type Guard struct {
	timeouts timeouts
	breaker  *breaker
}

// NewGuard returns a Guard for calls of a kind, which the log names.
func NewGuard(kind string, budget time.Duration, log *slog.Logger) *Guard {
	bs := &breakers{log: log.With("calls", kind), born: time.Now(), tripAfter: 1}
	return &Guard{timeouts: timeouts{budget: budget}, breaker: bs.newBreaker("")}
}

// Do makes a call, unless the breaker is open. The context of the call ends with the budget.
func (g *Guard) Do(call func(context.Context) error) (err error) {
	done, err := g.breaker.circuit.Allow()
	if err != nil {
		return err
	}
	err = errPanic
	defer func() { done(err) }()
	err = call(g.timeouts.nextTimeout(time.Now()))
	if err != nil {
		g.breaker.cause.Store(&failure{err})
	}
	return err
}

// timeouts returns contexts that end one budget from now, or up to a twentieth of it sooner, and never later. Decisions
// that begin close together share a context, because a context with a timer of its own costs more than the rest of a
// decision.
//
// The contexts do not descend from the requests' contexts. Stores merge the calls of many requests into one, which must
// not fail because one client left.
type timeouts struct {
	budget time.Duration
	last   atomic.Pointer[timeout]
}

// timeout is one shared context.
type timeout struct {
	context.Context
	made time.Time
}

func (t *timeouts) nextTimeout(now time.Time) *timeout {
	if last := t.last.Load(); last != nil && now.Sub(last.made) < t.budget/20 {
		return last
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(t.budget))
	context.AfterFunc(ctx, cancel) // its own timer ends it, and nothing ends it sooner
	next := &timeout{Context: ctx, made: now}
	t.last.Store(next) // two calls at once make two, and both are valid
	return next
}

// Stats are the counters of a Store. They only grow, except Breakers and Open.
type Stats struct {
	StoreCalls   uint64  `metric:"hotparam_gate_store_calls_total" help:"Calls to the shared store."`
	StoreErrors  uint64  `metric:"hotparam_gate_store_errors_total" help:"Calls to the shared store that failed or took too long."`
	StoreSkipped uint64  `metric:"hotparam_gate_store_skipped_total" help:"Calls to the shared store that an open circuit breaker prevented."`
	StoreOpened  uint64  `metric:"hotparam_gate_store_opened_total" help:"Times that a circuit breaker opened because an outage began."`
	StoreClosed  uint64  `metric:"hotparam_gate_store_closed_total" help:"Times that a circuit breaker closed because an outage ended."`
	StoreOpen    bool    `metric:"hotparam_gate_store_open" help:"1 while any circuit breaker is open and failure policies decide."`
	Breakers     int64   `metric:"hotparam_gate_store_breakers" help:"Circuit breakers: one, or on a Redis Cluster one for each master that has failed."`
	BreakersOpen int64   `metric:"hotparam_gate_store_breakers_open" help:"Circuit breakers that are open."`
	StoreLatency Latency `metric:"hotparam_gate_store_latency_seconds" help:"Duration of calls to the shared store."`
}

func (s *Store) Stats() Stats {
	out := Stats{
		StoreCalls: s.calls.Load(), StoreErrors: s.errors.Load(), StoreSkipped: s.skipped.Load(),
		StoreOpened: s.breakers.opened.Load(), StoreClosed: s.breakers.closed.Load(), StoreLatency: s.latency.read(),
	}
	out.Breakers, out.BreakersOpen = s.breakers.countBreakers()
	out.StoreOpen = out.BreakersOpen > 0
	return out
}

// Latency is a histogram. Counts[i] is the number of calls that took at most Bounds[i] and more than the bound before.
// The last count is for calls above every bound.
type Latency struct {
	Bounds [7]time.Duration
	Counts [8]uint64
	Sum    time.Duration
}

func latencyBounds() [7]time.Duration {
	const us = time.Microsecond
	return [7]time.Duration{100 * us, 250 * us, 500 * us, 1000 * us, 2500 * us, 10000 * us, 20000 * us}
}

// latency is the live form of Latency.
type latency struct {
	counts [8]atomic.Uint64
	sum    atomic.Int64
}

func (l *latency) add(d time.Duration) {
	bounds := latencyBounds()
	i, _ := slices.BinarySearch(bounds[:], d)
	l.counts[i].Add(1)
	l.sum.Add(int64(d))
}

func (l *latency) read() Latency {
	out := Latency{Bounds: latencyBounds(), Sum: time.Duration(l.sum.Load())}
	for i := range l.counts {
		out.Counts[i] = l.counts[i].Load()
	}
	return out
}

var (
	errPanic       = errors.New("guarded: shared store: panic") // the panic goes on to the caller
	errShardFailed = errors.New("guarded: shared store: a shard failed while another one denied")
	errSameFailure = errors.New("guarded: shared store: failed together with another call") // counted already
)
