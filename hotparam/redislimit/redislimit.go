// Package redislimit holds any number of processes to one limit, kept in Redis.
//
//	limits := redislimit.New(rdb)
//	result, err := limits.Allow(ctx, "mail:anna", limit.PerSecond(10))
//
// rdb is the caller's go-redis client: one server, Sentinel, or a cluster. A limit is named by its key and kept
// exactly, by the clock of Redis; package limit has the algorithms. A call is one round trip, and calls that are made
// at the same time share one. Keys in Redis begin with "hp:{limits", and each expires.
//
// An error means that Redis did not answer, or that the limit is invalid: the caller then chooses whether to allow or
// deny. It is unknown whether the call was charged. Set ContextTimeoutEnabled of rdb, or go-redis waits for its own
// timeouts if the context ends sooner.
package redislimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
	"github.com/hotparam/pipeline/internal/wait"
)

// namespace is the tenant of the keys of this package in Redis, and space separates them from its other keys.
const (
	namespace = "limits"
	space     = "key"
)

// Limiter keeps limits in Redis. Any number of goroutines may share it, and should: calls of one Limiter at the same
// time share a round trip. Make it with New: the methods of the zero value return an error, or panic if they return no
// error.
type Limiter struct {
	store *redislimits.Limiter
}

// New returns a Limiter that uses the caller's client, which stays open and unchanged. It panics if the client is nil,
// or neither a *redis.Client nor a *redis.ClusterClient, because the servers of a Ring share no state.
func New(rdb redis.UniversalClient) *Limiter {
	c, err := redisclient.Wrap(rdb, redisclient.Config{Namespace: namespace})
	if err != nil {
		panic(fmt.Sprintf("redislimit: New: %v", err))
	}
	return &Limiter{store: redislimits.New(c)}
}

// checkBuilt returns an error for a Limiter that was not made by New.
func (l *Limiter) checkBuilt() error {
	if l == nil || l.store == nil {
		return errors.New("redislimit: the Limiter is nil or the zero value: make it with New")
	}
	return nil
}

// mustBeBuilt panics on a Limiter that was not made by New. It is for methods that return no error.
func (l *Limiter) mustBeBuilt() {
	if err := l.checkBuilt(); err != nil {
		panic(err.Error())
	}
}

// Result is the answer to a call.
type Result struct {
	// Allowed is true if the call may proceed. Taken is the amount that it took: its n, less with AllowUpTo, 0 if it
	// was denied.
	Allowed bool
	Taken   int64
	// Limit is the maximum that can be taken at one instant, Remaining the amount that could be taken right now.
	Limit, Remaining int64
	// RetryAfter is the time that a denied call has to wait until it fits: 0 if allowed, hottype.Never if its n is
	// above Limit.
	RetryAfter time.Duration
	// ResetAfter is the time until Remaining is Limit again.
	ResetAfter time.Duration
	// Wait is the time by which an allowed call has to be delayed: 0 unless the limit has a Wait or is a leaky bucket.
	Wait time.Duration

	charge limit.Charge // charge that was made, for Refund
	at     time.Time
}

// Allow takes one call from the limit of a key, if one remains.
func (l *Limiter) Allow(ctx context.Context, key string, spec limit.Spec) (Result, error) {
	return l.AllowN(ctx, key, spec, 1)
}

// AllowN takes n, or nothing if less remains.
func (l *Limiter) AllowN(ctx context.Context, key string, spec limit.Spec, n int64) (Result, error) {
	if err := l.checkBuilt(); err != nil {
		return Result{}, err
	}
	s := recorder{store: l.store}
	charges, results := []limit.Charge{newCharge(key, spec, n)}, make([]limit.Result, 1)
	_, err := s.Take(ctx, time.Time{}, charges, results)
	if err != nil {
		return Result{}, fmt.Errorf("redislimit: allow %.100q: %w", key, err)
	}
	taken := int64(0)
	if results[0].Allowed {
		taken = n
	}
	return s.newResult(charges[0], results[0], taken), nil
}

// AllowUpTo takes the amount that remains, up to n; Taken is that amount. It costs up to two round trips, and one more
// each time that another process was faster.
func (l *Limiter) AllowUpTo(ctx context.Context, key string, spec limit.Spec, n int64) (Result, error) {
	if err := l.checkBuilt(); err != nil {
		return Result{}, err
	}
	s := recorder{store: l.store}
	c := newCharge(key, spec, n)
	taken, r, err := limit.TakeUpTo(ctx, &s, time.Time{}, c)
	if err != nil {
		return Result{}, fmt.Errorf("redislimit: allow up to %d for %.100q: %w", n, key, err)
	}
	return s.newResult(c, r, taken), nil
}

// Peek returns the amount that could be taken, and takes nothing.
func (l *Limiter) Peek(ctx context.Context, key string, spec limit.Spec) (Result, error) {
	return l.AllowN(ctx, key, spec, 0)
}

// Wait takes one call, and returns when the caller may proceed. If ctx would end sooner, it returns limit.ErrDeadline
// at once; if ctx ends meanwhile, its error. It has taken nothing then, or refunds the call as soon as Redis has
// answered.
//
// With a Wait of the limit a caller takes its turn at once, and callers proceed in the order in which they came.
// Without a Wait of the limit, or if its queue is full, Wait tries again when the call would fit, and a later caller
// may be first.
func (l *Limiter) Wait(ctx context.Context, key string, spec limit.Spec) error {
	for {
		r, err := l.allowWhile(ctx, key, spec)
		if err != nil {
			return err
		}
		pause := r.Wait
		if !r.Allowed {
			pause = r.RetryAfter
		}
		if err := wait.Within(ctx, pause, limit.ErrDeadline); err != nil {
			if r.Allowed { // it does not proceed, so others may
				_, back := l.Refund(context.WithoutCancel(ctx), r)
				err = errors.Join(err, back)
			}
			return fmt.Errorf("redislimit: wait for %.100q: %w", key, err)
		}
		if r.Allowed {
			return nil
		}
	}
}

// allowWhile allows like Allow, and refunds the call if ctx ends before its answer arrives: an abandoned call may have
// been made nevertheless.
func (l *Limiter) allowWhile(ctx context.Context, key string, spec limit.Spec) (Result, error) {
	type answer struct {
		result Result
		err    error
	}
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("redislimit: wait for %.100q: %w", key, ctx.Err())
	}
	answers := make(chan answer) // without a buffer, so that an answer without a receiver is refunded
	go func() {
		r, err := l.Allow(context.WithoutCancel(ctx), key, spec)
		select {
		case answers <- answer{r, err}:
		case <-ctx.Done():
			_, _ = l.Refund(context.WithoutCancel(ctx), r) // the caller has left; a call that failed has taken nothing
		}
	}()
	select {
	case a := <-answers:
		return a.result, a.err
	case <-ctx.Done():
		return Result{}, fmt.Errorf("redislimit: wait for %.100q: %w", key, ctx.Err())
	}
}

// Refund refunds an allowed call, because it was not made after all, and reports whether it could: tokens that a bucket
// has regained, or a charge of an earlier window, are not refunded twice. Refund a result once; after an error it may
// have been refunded.
func (l *Limiter) Refund(ctx context.Context, r Result) (bool, error) {
	if err := l.checkBuilt(); err != nil || r.Taken == 0 {
		return false, err
	}
	results := make([]limit.Result, 1)
	if err := l.store.RefundAt(ctx, []time.Time{r.at}, []limit.Charge{r.charge}, results); err != nil {
		return false, fmt.Errorf("redislimit: refund %.100q: %w", r.charge.Subject.Name, err)
	}
	return results[0].Allowed, nil
}

// Reset deletes the charges of a key, under any limit.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if err := l.checkBuilt(); err != nil {
		return err
	}
	if err := l.store.Reset(ctx, &limit.Subject{Space: space, Name: key}); err != nil {
		return fmt.Errorf("redislimit: reset %.100q: %w", key, err)
	}
	return nil
}

// Store returns a store that judges calls to which several limits apply, all or nothing; Take ignores its time and uses
// the clock of Redis. A Subject of it is not a key of Allow, unless its Space is "key".
func (l *Limiter) Store() limit.Store {
	l.mustBeBuilt()
	return l.store
}

// Throttle does the same as redis-cell's CL.THROTTLE key burst count period quantity, on a server without that module:
// count calls per period, burst more than one at once; quantity of them are taken now, 0 takes nothing. period is whole
// seconds. Its keys are not the keys of Allow.
func (l *Limiter) Throttle(ctx context.Context, key string, burst, count int64, period time.Duration,
	quantity int64) (limit.ThrottleReply, error) {
	if err := l.checkBuilt(); err != nil {
		return limit.ThrottleReply{}, err
	}
	reply, err := l.store.Throttle(ctx, key, burst, count, period, quantity)
	if err != nil {
		return reply, fmt.Errorf("redislimit: %w", err)
	}
	return reply, nil
}

func newCharge(key string, spec limit.Spec, n int64) limit.Charge {
	return limit.Charge{Subject: limit.Subject{Space: space, Name: key}, Spec: spec, Cost: n}
}

// recorder is the store of one call; it keeps the time of the last charge.
type recorder struct {
	store *redislimits.Limiter
	at    time.Time
}

func (s *recorder) Take(ctx context.Context, _ time.Time, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	ok, at, err := s.store.TakeAt(ctx, time.Time{}, charges, results)
	if err == nil {
		s.at = at[0]
	}
	return ok, err
}

func (s *recorder) newResult(c limit.Charge, r limit.Result, taken int64) Result {
	c.Cost = taken
	return Result{
		Allowed: r.Allowed, Taken: taken, Limit: r.Limit, Remaining: r.Remaining,
		RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter, Wait: c.Wait(&r), charge: c, at: s.at,
	}
}
