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
	// lookEvery is how often somebody looks after those who wait for long.
	lookEvery = 2 * time.Millisecond
	// maxOut bounds the calls that are out at a time, where Redis is late: half of
	// the connections that a client has by default.
	maxOut = defaultPoolSize / 2
)

var (
	// errFull: maxWaiting callers wait already.
	errFull = errors.New("too many decisions are waiting")
	// errClosed: the client was closed.
	errClosed = errors.New("client is closed")
)

// batcher lets decisions travel together. A decision that finds no call out departs
// at once. Those that come while one is out wait, and depart together when it is
// back: the busier it is, the more share a call, first come, first served.
//
// One call at a time is enough: with two, as many callers make twice as many
// calls of half the size, and were measured to be no faster with a hot key or
// with many keys, on two cores that Redis shared; three were slower. A call that is
// out for longer than `overdue` is another matter: its answer may be lost, and those
// who wait have a deadline. The next one departs meanwhile, so a lost answer fails
// its own callers and nobody else.
//
// Who departs alone makes the call itself. Other calls are made by a goroutine
// of the batcher, which begins when there is something to do and ends when there
// is not; close waits for it. So a caller may leave at any time, and the call
// goes on for the others.
type batcher struct {
	call    func(ctx context.Context, f *flight) error
	overdue time.Duration

	mu      sync.Mutex // guards what follows, and the flights that wait
	waiting []*flight  // only the last one takes callers in
	queued  int        // callers in them
	groups  int        // in the last one that departed: as many may come again
	turns   uint64     // given so far
	turn    uint64     // of the call that those who wait wait for; 0: none
	since   time.Time  // when that call began
	current *flight    // what it carries; nil: a caller's own
	out     int        // calls out, overdue ones included
	timer   *time.Timer
	looking bool // look is due
	closed  bool
	flyer   sync.WaitGroup

	stats limitCounters
}

// begin starts a call, with mu held. Others depart when it ends, or is overdue.
func (b *batcher) begin() (turn uint64) {
	b.turns++
	b.out++
	b.turn, b.since = b.turns, time.Now()
	return b.turn
}

// alone begins a call of the caller's own, if none is out. This spares it two
// changes of goroutines. It must call land with its turn.
func (b *batcher) alone() (turn uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turn != 0 || b.closed {
		return 0, false
	}
	return b.begin(), true
}

// land ends a call of alone. Those who came meanwhile are left to a goroutine.
func (b *batcher) land(turn uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end(turn)
}

// end ends a call, with mu held, and lets those who wait for it depart.
func (b *batcher) end(turn uint64) {
	b.out--
	if b.turn != turn {
		return // it was overdue: they have not waited for it
	}
	b.turn, b.current = 0, nil
	b.flush()
}

// flush lets those who wait depart, with mu held.
func (b *batcher) flush() {
	if len(b.waiting) > 0 {
		turn := b.begin()
		b.flyer.Go(func() { b.fly(turn) })
	}
}

// follow gives a decision a seat beside others that ask for the same, and wait
// already.
func (b *batcher) follow(ctx context.Context, c *limit.Charge) (s seat, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 || b.closed || b.queued >= maxWaiting {
		return seat{}, false
	}
	f := b.waiting[len(b.waiting)-1]
	if f.callers >= maxCallers {
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
func (b *batcher) board(ctx context.Context, q *question) (seat, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return seat{}, errClosed
	case b.queued >= maxWaiting:
		b.stats.refused.Add(1)
		return seat{}, errFull
	}
	f := b.boarding(q)
	s, merged := f.join(q)
	b.queued++
	if merged {
		b.stats.merged.Add(1)
	}
	f.bound(ctx)
	b.watch()
	if b.turn == 0 {
		b.flush()
	}
	return s, nil
}

// boarding is a flight with room for a question.
func (b *batcher) boarding(q *question) *flight {
	if n := len(b.waiting); n > 0 {
		f := b.waiting[n-1]
		if f.callers < maxCallers && len(f.targets)+len(q.asked) <= maxCharges {
			return f
		}
	}
	f := newFlight()
	f.groups = make([]group, 0, b.groups)
	b.waiting = append(b.waiting, f)
	return f
}

// fly makes calls until nobody waits, or others have gone on without it.
func (b *batcher) fly(turn uint64) {
	for f := b.depart(turn); f != nil; f = b.depart(turn) {
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

// depart takes the next flight; nil ends the turn.
func (b *batcher) depart(turn uint64) *flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turn != turn || len(b.waiting) == 0 {
		b.end(turn)
		return nil
	}
	f := b.waiting[0]
	b.waiting[0] = nil
	b.waiting = b.waiting[1:]
	b.queued -= f.callers
	b.since, b.current = time.Now(), f
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
// To wait for an answer or a context costs a crowd a tenth more CPU than to wait for
// one of them, and the answer comes within a fraction of a millisecond. So nobody
// looks at the context before look says so, which is up to 2 lookEvery later and
// before any deadline that is further away.
func (b *batcher) wait(ctx context.Context, s seat) error {
	<-s.f.woken
	select {
	case <-s.f.landed:
		return s.f.err
	default:
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
