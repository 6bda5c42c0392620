package redislimits

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// InFlight is limit.InFlight for all processes of a namespace, by the clock of Redis. Any number of goroutines may use
// it. Every call takes one round trip.
type InFlight struct {
	limiter *Limiter
	key     string
	most    int64
	life    time.Duration
}

// InFlight returns the slots under a key. Their number is `most`, and a lease that is not released expires after life.
// Errors are as in limit.NewInFlight.
func (l *Limiter) InFlight(key string, most int64, life time.Duration) (*InFlight, error) {
	if err := limitcore.CheckInFlight(most, life); err != nil {
		return nil, err
	}
	return &InFlight{limiter: l, key: l.keys.inFlightKey(key), most: most, life: life}, nil
}

// Acquire takes a slot under an id, or renews the lease of an id that has a slot. The result is as in limit.InFlight.
// After an error it is not known whether a slot was taken: Release releases it, or its lease expires.
func (f *InFlight) Acquire(ctx context.Context, id string) (limit.Result, error) {
	n, err := f.runScript(ctx, 4, id, f.most)
	if err != nil {
		return limit.Result{}, err
	}
	return limit.Result{Allowed: n[0] == 1, Limit: f.most, Remaining: n[1], RetryAfter: durationOf(n[2]),
		ResetAfter: durationOf(n[3])}, nil
}

// Release releases the slot of an id, and reports whether the id had one. It returns false also if the lease had
// expired.
func (f *InFlight) Release(ctx context.Context, id string) (bool, error) {
	n, err := f.runScript(ctx, 1, id, "")
	return err == nil && n[0] == 1, err
}

// runScript calls lua/in_flight.lua, from which it expects the given count of numbers.
func (f *InFlight) runScript(ctx context.Context, numbers int, id string, most any) ([]int64, error) {
	n, err := f.limiter.scripts.inFlight.Run(ctx, f.limiter.rdb, []string{f.key}, id, most,
		f.life.Microseconds()).Int64Slice()
	if err == nil && len(n) != numbers {
		err = fmt.Errorf("reply of %d numbers instead of %d", len(n), numbers)
	}
	if err != nil {
		return nil, fmt.Errorf("redislimits: in flight: %w", err)
	}
	return n, nil
}

// AcquireSlot takes a slot for a request, or renews the slot that its id has. It takes one round trip.
func (l *Limiter) AcquireSlot(ctx context.Context, p *verdict.Slot, id string) (limit.Result, error) {
	f, err := l.InFlight(p.Name, p.Limit, p.TTL)
	if err != nil {
		return limit.Result{}, err
	}
	return f.Acquire(ctx, id)
}

// ReleaseSlot releases the slot of an id, and reports whether it was held. It takes one round trip.
func (l *Limiter) ReleaseSlot(ctx context.Context, p *verdict.Slot, id string) (bool, error) {
	return (&InFlight{limiter: l, key: l.keys.inFlightKey(p.Name), life: time.Second}).Release(ctx, id)
}

// Throttle does the same as redis-cell's CL.THROTTLE key burst count period quantity, on a server without that module:
// it allows count calls per period, and burst more than one at once. It takes quantity of them now; a quantity of 0
// takes no call. The key belongs to the client's namespace and is not a subject of the Limiter.
//
// period must be whole seconds. Numbers that lua/cl_throttle.lua cannot keep exactly are errors of the server. It takes
// one round trip; after an error it is not known whether anything was charged.
func (l *Limiter) Throttle(ctx context.Context, key string, burst, count int64, period time.Duration,
	quantity int64) (limit.ThrottleReply, error) {
	if period <= 0 || period%time.Second != 0 {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: period %v must be whole seconds", period)
	}
	keys := []string{l.keys.throttleKey(key)}
	n, err := l.scripts.clThrottle.Run(ctx, l.rdb, keys, burst, count, int64(period/time.Second), quantity).Int64Slice()
	if err != nil {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: %w", err)
	}
	if len(n) != 5 {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: reply of %d numbers instead of 5", len(n))
	}
	return limit.ThrottleReply{Limited: n[0] == 1, Limit: n[1], Remaining: n[2], RetryAfter: n[3], ResetAfter: n[4]},
		nil
}

// Reset deletes the charges of a subject and its block. It takes two round trips.
func (l *Limiter) Reset(ctx context.Context, subject *limit.Subject) error {
	return l.ResetAll(ctx, []limit.Charge{{Subject: *subject}})
}

// ResetAll is Reset for the subjects of some charges. For fixed and sliding windows it also deletes the sums that
// processes have written; each process has to delete its own sums (Windows.Reset). It takes two round trips, the second
// to each node that has a subject.
func (l *Limiter) ResetAll(ctx context.Context, charges []limit.Charge) error {
	now, err := l.rdb.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("redislimits: reset: %w", err)
	}
	_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range charges {
			c := &charges[i]
			keys := l.limiterOf(&c.Subject).keys
			state := keys.limitState(&c.Subject)
			p.Del(ctx, state, keys.blockKey(state))
			if !isExchanged(&c.Spec) {
				continue
			}
			window := c.Spec.Window.Microseconds()
			start := now.UnixMicro() - now.UnixMicro()%window
			for _, at := range []int64{start - window, start, start + window} { // a node's clock may be ahead
				p.Del(ctx, keys.sumsKey(window, at, &c.Subject))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("redislimits: reset: %w", err)
	}
	return nil
}
