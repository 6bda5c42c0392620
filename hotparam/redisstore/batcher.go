package redisstore

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

const (
	// maxCharges bounds how long one call may keep Redis from others, about
	// 1 ms; maxCallers bounds the memory of one call.
	maxCharges = 256
	maxCallers = 4096
	// maxWaiting is how many callers may wait for departure.
	maxWaiting = 16_384
	// crowded is how many requests for each different one make a crowd.
	crowded = 4
	// musterFor is the longest that a call waits for a crowd to ask again.
	musterFor = 500 * time.Microsecond
	// alarmEvery is how often somebody looks at the contexts of all who wait.
	alarmEvery = 2 * time.Millisecond
)

var (
	// errFull: maxWaiting callers wait already.
	errFull = errors.New("too many decisions are waiting")
	// errClosed: the client was closed.
	errClosed = errors.New("client is closed")
)

// batcher lets decisions travel together. A decision that finds no call in the
// air departs at once. Those that come while one is out gather, and depart
// together when it is back: the busier it is, the more share a call, first come,
// first served, and nobody ever waits for a timer.
//
// One call at a time is enough: with two, as many callers make twice as many
// calls of half the size, and were measured to be no faster with a hot key or
// with many keys, on two cores that Redis shared; three were slower.
//
// Who departs alone makes the call itself. Other calls are made by one goroutine
// of the batcher, which begins when there is something to do and ends when there
// is not; close waits for it. So a caller may leave at any time, and the call
// goes on for the others.
type batcher struct {
	call func(ctx context.Context, f *flight) error

	mu      sync.Mutex // guards what follows, and the flights that wait
	waiting []*flight  // only the last one takes callers in
	queued  int        // callers in them
	out     *flight    // the last one that departed
	groups  int        // in it: as many may come again
	flying  bool
	closed  bool
	alarm   *time.Timer // nil until it is first needed
	alarmed bool        // it will go off
	flyer   sync.WaitGroup

	stats limitCounters
}

// alone is whether nothing is in the air: then the caller makes its call itself,
// and lands when it is back. This spares it two changes of goroutines.
func (b *batcher) alone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flying || b.closed {
		return false
	}
	b.flying = true
	return true
}

// land leaves those who gathered meanwhile to a goroutine.
func (b *batcher) land() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flying = len(b.waiting) > 0; b.flying {
		b.flyer.Go(b.fly)
	}
}

// follow gives a decision a seat beside others that ask for the same, and wait
// already. now is -1 but in tests.
func (b *batcher) follow(ctx context.Context, c *limit.Charge, now int64) (s seat, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 || b.closed || b.queued >= maxWaiting {
		return seat{}, false
	}
	f := b.waiting[len(b.waiting)-1]
	if f.now != now || f.callers >= maxCallers {
		return seat{}, false
	}
	if s, ok = f.follow(c); ok {
		b.queued++
		b.stats.merged.Add(1)
		f.bound(ctx)
	}
	return s, ok
}

// board gives a decision its seat.
func (b *batcher) board(ctx context.Context, q *question, now int64) (seat, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return seat{}, errClosed
	case b.queued >= maxWaiting:
		b.stats.refused.Add(1)
		return seat{}, errFull
	}
	f := b.boarding(q, now)
	s, merged := f.join(q)
	b.queued++
	if merged {
		b.stats.merged.Add(1)
	}
	f.bound(ctx)
	if !b.flying {
		b.flying = true
		b.flyer.Go(b.fly)
	}
	return s, nil
}

// boarding is a flight with room for a question.
func (b *batcher) boarding(q *question, now int64) *flight {
	if n := len(b.waiting); n > 0 {
		f := b.waiting[n-1]
		if f.now == now && f.callers < maxCallers && len(f.targets)+len(q.asked) <= maxCharges {
			return f
		}
	}
	f := newFlight(now)
	f.groups = make([]group, 0, b.groups)
	b.waiting = append(b.waiting, f)
	b.setAlarm()
	return f
}

// setAlarm is called with mu held.
func (b *batcher) setAlarm() {
	switch {
	case b.alarmed:
		return
	case b.alarm == nil:
		b.alarm = time.AfterFunc(alarmEvery, b.ring)
	default:
		b.alarm.Reset(alarmEvery)
	}
	b.alarmed = true
}

// ring wakes callers who wait for long, or whose deadline is near, so that they
// look after their contexts themselves.
func (b *batcher) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alarmed = false
	if b.out != nil {
		b.rouse(b.out)
	}
	for _, f := range b.waiting {
		b.rouse(f)
	}
}

func (b *batcher) rouse(f *flight) {
	if f.over.Load() {
		return
	}
	if f.old || !f.first.IsZero() && time.Until(f.first) < 2*alarmEvery {
		f.wake()
	}
	f.old = true
	b.setAlarm()
}

// fly makes calls until nobody waits.
func (b *batcher) fly() {
	for f := b.depart(); f != nil; f = b.depart() {
		f.err = b.travel(f)
		few := f.callers >= crowded*len(f.groups)
		f.land()
		b.muster(few)
	}
}

// muster lets callers run who were just answered: those who ask again at once go
// with the next call and not with the one after. Where few different requests
// came from many, a call costs as much with all as with some, so it waits as long
// as that makes more of them ask, which makes calls half as many; in a process that
// has much else to do, not for long. Else Redis has work to do while they run.
func (b *batcher) muster(few bool) {
	runtime.Gosched()
	if !few {
		return
	}
	began := time.Now()
	for seen := -1; ; runtime.Gosched() {
		b.mu.Lock()
		n := b.queued
		b.mu.Unlock()
		if n == seen || time.Since(began) > musterFor {
			return
		}
		seen = n
	}
}

func (b *batcher) depart() *flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.flying, b.out = false, nil
		return nil
	}
	f := b.waiting[0]
	b.out = f
	b.waiting[0] = nil
	b.waiting = b.waiting[1:]
	b.queued -= f.callers
	f.departed, b.groups = true, len(f.groups)
	return f
}

// travel makes the call, which lasts at most as long as a caller waits for it.
func (b *batcher) travel(f *flight) error {
	defer f.unload()
	asks := f.asks()
	if asks == 0 {
		return context.Canceled // and nobody reads it
	}
	ctx := context.Background()
	if !f.patient {
		within, cancel := context.WithDeadline(ctx, f.until)
		defer cancel()
		ctx = within
	}
	b.stats.flew(uint64(asks))
	return b.call(ctx, f)
}

// wait waits for the answer, or leaves when the context ends. Who leaves before
// departure is not charged; later that is not known.
//
// To wait for an answer or a context costs twice as much as to wait for one of
// them, and the answer comes within a fraction of a millisecond. So nobody looks
// at the context before the alarm, which is up to 2 alarmEvery later and before
// any deadline that is further away.
func (b *batcher) wait(ctx context.Context, s seat) error {
	<-s.f.woken
	if s.f.over.Load() {
		return s.f.err
	}
	select {
	case <-s.f.landed:
		return s.f.err
	case <-ctx.Done():
		b.leave(s)
		return ctx.Err()
	}
}

func (b *batcher) leave(s seat) {
	b.stats.left.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !s.f.departed {
		g := &s.f.groups[s.group]
		g.gone = append(g.gone, s.place)
	}
}

// close refuses new callers. Calls that are out, and those who wait, fail when
// the connections are closed; flyer.Wait waits for that.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
}
