package redislimit

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisstore"
)

// Store judges calls that several limits apply to, all or nothing; Take ignores its
// time and uses the clock of Redis. A Subject of it is none of the keys of Allow,
// unless its Space is "key".
func (l *Limiter) Store() limit.Store { return l.store }

// Throttle does what redis-cell's CL.THROTTLE key burst count period quantity does, on
// a server without that module: count calls per period, burst more than one may come
// at once, quantity of them are asked for now; 0 only asks. period is whole seconds.
// Its keys are not those of Allow.
func (l *Limiter) Throttle(ctx context.Context, key string, burst, count int64, period time.Duration, quantity int64) (limit.ThrottleReply, error) {
	reply, err := l.client.Throttle(ctx, key, burst, count, period, quantity)
	if err != nil {
		return reply, fmt.Errorf("redislimit: %w", err)
	}
	return reply, nil
}

// InFlight bounds how many calls run at the same time in all processes. Any number of
// goroutines may share it; every call is one round trip.
type InFlight struct{ places *redisstore.InFlight }

// InFlight gives the places under a key, of which there are most. A place that is not
// given back is free again after life. It panics on what limit.CheckInFlight refuses.
func (l *Limiter) InFlight(key string, most int64, life time.Duration) *InFlight {
	places, err := l.client.InFlight(key, most, life)
	if err != nil {
		panic(fmt.Sprintf("redislimit: InFlight: %v", err))
	}
	return &InFlight{places}
}

// Acquire takes a place under an id, or prolongs that of an id that has one. The result
// is that of limit.InFlight. After an error a place may have been taken.
func (f *InFlight) Acquire(ctx context.Context, id string) (limit.Result, error) {
	return f.places.Acquire(ctx, id)
}

// Release gives the place of an id back, and reports whether it had one: false also
// where its life was over.
func (f *InFlight) Release(ctx context.Context, id string) (bool, error) {
	return f.places.Release(ctx, id)
}
