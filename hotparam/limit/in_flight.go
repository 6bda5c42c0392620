package limit

import (
	"container/list"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// InFlight bounds the number of calls that run at the same time. A call takes a place under an id of its own and
// releases it when it ends. The place is a lease: if it is not released, because its holder crashed, it expires after
// its life. A longer call acquires again under the same id, which takes no second place.
//
// It keeps no more ids than calls may run. Any number of goroutines may use it. Acquire and Release are O(1) on
// average, while the life stays the same. Package redislimit has an InFlight that many processes share.
type InFlight struct {
	max  int64
	life time.Duration

	mu sync.Mutex
	// at is the time at which a slot was last taken. Time never runs back from it (U11), unless the clock was set back.
	at     time.Time                // guarded by mu
	leases *list.List               // of *lease, guarded by mu: first to expire first
	byID   map[string]*list.Element // guarded by mu
}

type lease struct {
	id   string
	over time.Time
}

// NewInFlight returns an InFlight with all places free. most must not be negative (0 always denies); life has to be
// whole microseconds, above 0 and up to 407 days.
func NewInFlight(most int64, life time.Duration) (*InFlight, error) {
	if err := limitcore.CheckInFlight(most, life); err != nil {
		return nil, err
	}
	return &InFlight{max: most, life: life, leases: list.New(), byID: map[string]*list.Element{}}, nil
}

// SetLimits changes the bounds. Current leases keep their ends.
func (f *InFlight) SetLimits(most int64, life time.Duration) error {
	if err := limitcore.CheckInFlight(most, life); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.max, f.life = most, life
	return nil
}

// InUse returns the number of calls that have a place.
func (f *InFlight) InUse(now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, expired := f.syncClock(now)
	return f.leases.Len() - expired
}

// Acquire takes a place, or prolongs the lease of an id that has a place. Limit is the bound, Remaining the number of
// free places. RetryAfter of a denial is the time until the first lease expires, if no place is released sooner (Never
// if the bound is 0); ResetAfter is the time until the last lease expires.
func (f *InFlight) Acquire(now time.Time, id string) Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, expired := f.syncClock(now)
	running := f.leases.Len() - expired
	held := f.byID[id]
	if held != nil && !held.Value.(*lease).over.After(now) {
		held = nil
	}
	if held == nil && int64(running) >= f.max {
		r := f.resultOf(now, running)
		if r.RetryAfter = hottype.Never; f.max > 0 {
			r.RetryAfter = f.leaseEnd(expired + running - int(f.max)).Sub(now)
		}
		return r
	}
	for range expired {
		f.removeLease(f.leases.Front())
	}
	if held != nil {
		f.removeLease(held)
	}
	f.at = now
	f.addLease(&lease{id, now.Add(f.life)})
	r := f.resultOf(now, f.leases.Len())
	r.Allowed = true
	return r
}

// Release releases the place of an id, and reports whether the id had a place. It returns false also if the lease had
// expired.
func (f *InFlight) Release(now time.Time, id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, _ = f.syncClock(now)
	held := f.byID[id]
	if held == nil {
		return false
	}
	f.removeLease(held)
	return held.Value.(*lease).over.After(now)
}

// syncClock returns the time by which to judge, in whole microseconds as in Redis, and the number of leases that have
// expired by then, which are the first. A denied call removes no leases, as in Redis.
func (f *InFlight) syncClock(now time.Time) (_ time.Time, expired int) {
	now = now.Truncate(time.Microsecond)
	if f.at.After(now.Add(limitcore.MaxAhead * time.Microsecond)) {
		f.at = now // the clock was set back
	}
	if now.Before(f.at) {
		now = f.at
	}
	for e := f.leases.Front(); e != nil && !e.Value.(*lease).over.After(now); e = e.Next() {
		expired++
	}
	return now, expired
}

// leaseEnd returns the end of the lease at an index; the bound may have been lowered, so this need not be the first
// lease that makes room.
func (f *InFlight) leaseEnd(at int) time.Time {
	e := f.leases.Front()
	for range at {
		e = e.Next()
	}
	return e.Value.(*lease).over
}

// addLease keeps the order: a new lease ends last, unless the life was made shorter.
func (f *InFlight) addLease(l *lease) {
	before := f.leases.Back()
	for before != nil && before.Value.(*lease).over.After(l.over) {
		before = before.Prev()
	}
	if before == nil {
		f.byID[l.id] = f.leases.PushFront(l)
	} else {
		f.byID[l.id] = f.leases.InsertAfter(l, before)
	}
}

func (f *InFlight) removeLease(e *list.Element) {
	delete(f.byID, e.Value.(*lease).id)
	f.leases.Remove(e)
}

func (f *InFlight) resultOf(now time.Time, running int) Result {
	r := Result{Limit: f.max, Remaining: max(0, f.max-int64(running))}
	if running > 0 {
		r.ResetAfter = f.leases.Back().Value.(*lease).over.Sub(now)
	}
	return r
}
