package redislimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
)

// InFlight bounds the number of calls that run at the same time in all processes. Any number of goroutines may share
// it; every call is one round trip. Make it with [Limiter.InFlight]: the methods of the zero value return an error.
type InFlight struct{ places *redislimits.InFlight }

// InFlight returns the InFlight of a key, with most places. A place that is not released expires after life. It panics
// on arguments that limit.NewInFlight rejects.
func (l *Limiter) InFlight(key string, most int64, life time.Duration) *InFlight {
	l.mustBeBuilt()
	places, err := l.store.InFlight(key, most, life)
	if err != nil {
		panic(fmt.Sprintf("redislimit: InFlight: %v", err))
	}
	return &InFlight{places}
}

// Acquire takes a place under an id, or prolongs the lease of an id that has a place. The result has the meaning of
// limit.InFlight. After an error a place may have been taken.
func (f *InFlight) Acquire(ctx context.Context, id string) (limit.Result, error) {
	if err := f.checkBuilt(); err != nil {
		return limit.Result{}, err
	}
	return f.places.Acquire(ctx, id)
}

// Release releases the place of an id, and reports whether the id had a place. It returns false also if the place had
// expired.
func (f *InFlight) Release(ctx context.Context, id string) (bool, error) {
	if err := f.checkBuilt(); err != nil {
		return false, err
	}
	return f.places.Release(ctx, id)
}

// checkBuilt returns an error for an InFlight that was not made by Limiter.InFlight.
func (f *InFlight) checkBuilt() error {
	if f == nil || f.places == nil {
		return errors.New("redislimit: the InFlight is nil or the zero value: make it with New and Limiter.InFlight")
	}
	return nil
}
