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

// InFlight is limit.InFlight for all processes of a namespace, by the clock of
// Redis. Any number of goroutines may use it; every call is one round trip.
type InFlight struct {
	of   *Limiter
	key  string
	most int64
	life time.Duration
}

// InFlight has the places under a key, of which there are most; a lease that is not
// released expires after life. Errors are those of limit.NewInFlight.
func (l *Limiter) InFlight(key string, most int64, life time.Duration) (*InFlight, error) {
	if err := limitcore.CheckInFlight(most, life); err != nil {
		return nil, err
	}
	return &InFlight{of: l, key: l.keys.inFlight(key), most: most, life: life}, nil
}

// Acquire takes a place under an id, or prolongs the lease of an id that has one;
// the result is that of limit.InFlight. After an error it is not known whether a
// place was taken: Release releases it, or its lease expires.
func (f *InFlight) Acquire(ctx context.Context, id string) (limit.Result, error) {
	n, err := f.run(ctx, 4, id, f.most)
	if err != nil {
		return limit.Result{}, err
	}
	return limit.Result{Allowed: n[0] == 1, Limit: f.most, Remaining: n[1], RetryAfter: duration(n[2]),
		ResetAfter: duration(n[3])}, nil
}

// Release releases the place of an id, and reports whether it had one: false also
// when the lease had expired.
func (f *InFlight) Release(ctx context.Context, id string) (bool, error) {
	n, err := f.run(ctx, 1, id, "")
	return err == nil && n[0] == 1, err
}

// run calls lua/in_flight.lua, which returns so many numbers.
func (f *InFlight) run(ctx context.Context, numbers int, id string, most any) ([]int64, error) {
	n, err := f.of.scripts.inFlight.Run(ctx, f.of.rdb, []string{f.key}, id, most, f.life.Microseconds()).Int64Slice()
	if err == nil && len(n) != numbers {
		err = fmt.Errorf("reply of %d numbers, want %d", len(n), numbers)
	}
	if err != nil {
		return nil, fmt.Errorf("redislimits: in flight: %w", err)
	}
	return n, nil
}

// AcquireSlot takes a place for a request, or renews the one that its id has. One round
// trip.
func (l *Limiter) AcquireSlot(ctx context.Context, p *verdict.Slot, id string) (limit.Result, error) {
	f, err := l.InFlight(p.Name, p.Limit, p.TTL)
	if err != nil {
		return limit.Result{}, err
	}
	return f.Acquire(ctx, id)
}

// ReleaseSlot releases it, and reports whether it was held. One round trip.
func (l *Limiter) ReleaseSlot(ctx context.Context, p *verdict.Slot, id string) (bool, error) {
	return (&InFlight{of: l, key: l.keys.inFlight(p.Name), life: time.Second}).Release(ctx, id)
}

// Throttle does what redis-cell's CL.THROTTLE key burst count period quantity
// does, on a server without that module: count calls per period, burst more
// than one at once; quantity of them are taken now; 0 takes none.
// The key is one of the client's namespace and is not a subject of the Limiter.
//
// period is whole seconds. Numbers that lua/cl_throttle.lua cannot keep exactly
// are errors of the server. One round trip; after an error it is not known
// whether anything was charged.
func (l *Limiter) Throttle(ctx context.Context, key string, burst, count int64, period time.Duration,
	quantity int64) (limit.ThrottleReply, error) {
	if period <= 0 || period%time.Second != 0 {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: period %v must be whole seconds", period)
	}
	keys := []string{l.keys.throttle(key)}
	n, err := l.scripts.clThrottle.Run(ctx, l.rdb, keys, burst, count, int64(period/time.Second), quantity).Int64Slice()
	if err != nil {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: %w", err)
	}
	if len(n) != 5 {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: reply of %d numbers, want 5", len(n))
	}
	return limit.ThrottleReply{Limited: n[0] == 1, Limit: n[1], Remaining: n[2], RetryAfter: n[3], ResetAfter: n[4]},
		nil
}

// Reset deletes what was charged to a subject, and its block. Two round trips.
func (l *Limiter) Reset(ctx context.Context, subject *limit.Subject) error {
	return l.ResetAll(ctx, []limit.Charge{{Subject: *subject}})
}

// ResetAll is Reset for the subjects of some charges. For fixed and sliding windows it
// also deletes the sums that processes have written; each process has to delete its own
// (Windows.Reset). Two round trips, to each node of a cluster.
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
			p.Del(ctx, state, keys.block(state))
			if !shares(&c.Spec) {
				continue
			}
			window := c.Spec.Window.Microseconds()
			start := now.UnixMicro() - now.UnixMicro()%window
			for _, at := range []int64{start - window, start, start + window} { // a node's clock may be ahead
				p.Del(ctx, keys.sums(window, at, &c.Subject))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("redislimits: reset: %w", err)
	}
	return nil
}
