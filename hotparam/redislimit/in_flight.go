package redislimit

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
)

// InFlight bounds how many calls run at the same time in all processes. Any number of
// goroutines may share it; every call is one round trip.
type InFlight struct{ places *redislimits.InFlight }

// InFlight gives the places under a key, of which there are most. A place that is not
// given back is free again after life. It panics on what limit.NewInFlight refuses.
func (l *Limiter) InFlight(key string, most int64, life time.Duration) *InFlight {
	places, err := l.store.InFlight(key, most, life)
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
