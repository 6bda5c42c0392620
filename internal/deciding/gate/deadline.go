package gate

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines hands out contexts that end one budget from now, or up to a
// twentieth of it sooner, and never later. Decisions that begin close together
// share one: a context with a timer of its own costs more than the rest of a
// decision.
//
// They do not descend from the requests' contexts. Stores merge the calls of
// many requests into one, which must not fail because one client left.
type deadlines struct {
	budget time.Duration
	last   atomic.Pointer[deadline]
}

// deadline is one shared context.
type deadline struct {
	context.Context
	made time.Time
}

func (d *deadlines) next(now time.Time) *deadline {
	if last := d.last.Load(); last != nil && now.Sub(last.made) < d.budget/20 {
		return last
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(d.budget))
	context.AfterFunc(ctx, cancel) // its own timer ends it; nobody ends it sooner
	next := &deadline{Context: ctx, made: now}
	d.last.Store(next) // two at once make two: both hold
	return next
}
