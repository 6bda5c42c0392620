package redislimits

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
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

// InFlight gives the places under a key, of which there are most; a lease that is
// not given back is over after life. Errors are those of limit.NewInFlight.
func (l *Limiter) InFlight(key string, most int64, life time.Duration) (*InFlight, error) {
	if err := limitcore.CheckInFlight(most, life); err != nil {
		return nil, err
	}
	return &InFlight{of: l, key: l.keys.inFlight(key), most: most, life: life}, nil
}

// Acquire takes a place under an id, or prolongs the lease of an id that has one;
// the result is that of limit.InFlight. After an error it is not known whether a
// place was taken: Release gives it back, or its lease runs out.
func (f *InFlight) Acquire(ctx context.Context, id string) (limit.Result, error) {
	n, err := f.run(ctx, 4, id, f.most)
	if err != nil {
		return limit.Result{}, err
	}
	return limit.Result{Allowed: n[0] == 1, Limit: f.most, Remaining: n[1], RetryAfter: duration(n[2]),
		ResetAfter: duration(n[3])}, nil
}

// Release gives the place of an id back, and says whether it had one: false also
// where the lease was over.
func (f *InFlight) Release(ctx context.Context, id string) (bool, error) {
	n, err := f.run(ctx, 1, id, "")
	return err == nil && n[0] == 1, err
}

// run asks lua/in_flight.lua for so many numbers.
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
func (l *Limiter) AcquireSlot(ctx context.Context, p *hottype.Place, id string) (limit.Result, error) {
	f, err := l.InFlight(p.Name, p.Most, p.Life)
	if err != nil {
		return limit.Result{}, err
	}
	return f.Acquire(ctx, id)
}

// ReleaseSlot gives it back, and says whether it was held. One round trip.
func (l *Limiter) ReleaseSlot(ctx context.Context, p *hottype.Place, id string) (bool, error) {
	return (&InFlight{of: l, key: l.keys.inFlight(p.Name), life: time.Second}).Release(ctx, id)
}
