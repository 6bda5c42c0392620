package redislimits

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
	// 1 ms; maxWaiters bounds the memory of one call.
	maxCharges = 256
	maxWaiters = 4096
	// maxWaiting is how many callers may wait for their batch to be sent.
	maxWaiting = 16_384
	// maxOut bounds the calls that are out at a time, where Redis is late: half of
	// the connections that a client has by default.
	maxOut = 8
	// gatherFor is the longest that a call waits for callers to ask again.
	gatherFor = 500 * time.Microsecond
)

var (
	// errFull: maxWaiting callers wait already.
	errFull = errors.New("too many decisions are waiting")
	// errClosed: the client was closed.
	errClosed = errors.New("client is closed")
)

// batcher puts decisions that are asked for at the same time into one call. Whoever
// finds no call out is sent at once. Those who come while one is out wait, and are
// sent together when it is back: the busier it is, the more share a call, first come,
// first served.
//
// One call at a time is enough: with two, as many callers make twice as many calls of
// half the size, and were measured to be no faster. A call that is out for longer than
// `overdue` is another matter: its answer may be lost, and those who wait have a
// deadline. The next one is sent meanwhile, so a lost answer fails its own callers and
// nobody else.
//
// Calls are made by a goroutine of the batcher, which begins when there is something
// to send and ends when there is not; calls.Wait waits for it. So a caller may leave at
// any time, and the call goes on for the others.
type batcher struct {
	send    func(ctx context.Context, b *batch) error
	overdue time.Duration

	mu      sync.Mutex // guards what follows, and the batches that wait
	waiting []*batch   // only the last one takes requests in
	queued  int        // waiters in them
	current *batch     // the call that those who wait wait for; nil: none
	sentAt  time.Time  // when that was sent
	out     int        // calls out, overdue ones included
	timer   *time.Timer
	closed  bool
	calls   sync.WaitGroup

	stats counters
}

// join gives a charge its place, if it equals the last request that waits: on a hot key
// most do, and the names of states need not be built for them.
func (b *batcher) join(ctx context.Context, c *limit.Charge) (w waiter, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.waiting)
	if n == 0 || b.closed || b.queued >= maxWaiting {
		return waiter{}, false
	}
	last := b.waiting[n-1]
	if last.waiters >= maxWaiters || !last.joinable || last.recent != *c {
		return waiter{}, false
	}
	b.queued++
	b.stats.merged.Add(1)
	return last.join(ctx, int32(len(last.requests)-1)), true
}

// enqueue gives the request of some charges its place in a batch.
func (b *batcher) enqueue(ctx context.Context, r *request, charges []limit.Charge) (waiter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return waiter{}, errClosed
	case b.queued >= maxWaiting:
		b.stats.refused.Add(1)
		return waiter{}, errFull
	}
	n := len(b.waiting)
	if n == 0 || !b.waiting[n-1].fits(r) {
		b.waiting, n = append(b.waiting, newBatch()), n+1
		b.watch()
	}
	last := b.waiting[n-1]
	w, merged := last.add(ctx, r)
	b.queued++
	if merged {
		b.stats.merged.Add(1)
	} else {
		last.remember(charges)
	}
	b.flush()
	return w, nil
}

// flush sends the first batch that waits, unless a call is out; mu is held.
func (b *batcher) flush() {
	if b.current != nil || len(b.waiting) == 0 {
		return
	}
	next := b.waiting[0]
	b.waiting[0] = nil
	b.waiting = b.waiting[1:]
	b.queued -= next.waiters
	b.begin(next)
	b.calls.Go(func() {
		next.err = b.call(next)
		next.release()
		close(next.done)
		b.gather(next)
		b.end(next)
	})
}

// begin has those who come wait for a call; mu is held.
func (b *batcher) begin(next *batch) {
	next.sent = true
	b.current, b.sentAt = next, time.Now()
	b.out++
	b.watch()
}

// watch sees to it that those who wait do not wait for an overdue call; mu is held.
func (b *batcher) watch() {
	switch {
	case b.current == nil || len(b.waiting) == 0:
	case b.timer == nil:
		b.timer = time.AfterFunc(b.overdue-time.Since(b.sentAt), b.late)
	default:
		b.timer.Reset(b.overdue - time.Since(b.sentAt))
	}
}

// end lets those who wait for a call go next.
func (b *batcher) end(own *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out--
	if b.current == own {
		b.current = nil
	}
	b.pass()
}

// single makes a call for one request in the caller's own goroutine, if none is out.
// That spares a change of goroutines there and back, a third of what a caller who is
// alone waits. go-redis looks at the deadline of a context and not at Done, so a context
// that only a cancellation ends is not for this.
func (b *batcher) single(ctx context.Context, r *request) (w waiter, ok bool, err error) {
	if _, bounded := ctx.Deadline(); !bounded && ctx.Done() != nil {
		return waiter{}, false, nil
	}
	b.mu.Lock()
	if b.current != nil || len(b.waiting) > 0 || b.closed {
		b.mu.Unlock()
		return waiter{}, false, nil
	}
	own := newSingle(r)
	b.begin(own)
	b.mu.Unlock()
	defer b.end(own)
	b.stats.sent(1)
	return waiter{batch: own, place: 1}, true, b.send(ctx, own)
}

// call makes a call, which lasts at most as long as one of its waiters waits for it.
func (b *batcher) call(own *batch) error {
	wanted := own.wanted()
	if wanted == 0 {
		return context.Canceled // and nobody reads it
	}
	ctx := context.Background()
	if !own.patient {
		within, cancel := context.WithDeadline(ctx, own.until)
		defer cancel()
		ctx = within
	}
	b.stats.sent(uint64(wanted))
	return b.send(ctx, own)
}

// gather lets callers run who were just answered: those who ask again at once go with
// the next call and not with the one after. Where few different requests came from
// many, a call costs as much with all as with some, so it waits as long as that makes
// more of them ask; in a process that has much else to do, not for long. Else Redis has
// work to do while they run.
func (b *batcher) gather(own *batch) {
	runtime.Gosched()
	if own.waiters < 4*len(own.requests) {
		return
	}
	began := time.Now()
	for seen := -1; time.Since(began) < gatherFor; runtime.Gosched() {
		b.mu.Lock()
		n := b.queued
		b.mu.Unlock()
		if n == seen {
			return
		}
		seen = n
	}
}

// late lets those who wait be sent beside a call that is overdue.
func (b *batcher) late() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass()
}

// pass no longer waits for a call that is overdue; mu is held.
func (b *batcher) pass() {
	if b.current != nil && time.Since(b.sentAt) >= b.overdue && b.out < maxOut && !b.closed {
		b.current = nil
	}
	b.flush()
}

// wait waits for the answer, or leaves when the context ends. Who leaves before the
// batch is sent is not charged; later that is not known.
func (b *batcher) wait(ctx context.Context, w waiter) error {
	select {
	case <-w.batch.done:
		return w.batch.err
	case <-ctx.Done():
	}
	b.stats.left.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.batch.sent {
		q := &w.batch.requests[w.request]
		q.gone = append(q.gone, w.place)
	}
	return ctx.Err()
}

// close refuses new callers. Calls that are out, and those who wait, fail when
// the connections are closed; calls.Wait waits for that.
func (b *batcher) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
