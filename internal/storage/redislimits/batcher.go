package redislimits

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
)

const (
	// maxCharges bounds how long one call may keep Redis from other calls, about 1 ms; maxWaiters bounds the memory of
	// one call.
	maxCharges = 256
	maxWaiters = 4096
	// maxWaiting is the number of callers that may wait for their batch to be sent.
	maxWaiting = 16_384
	// maxInFlight bounds the calls in flight when Redis is slow. It is half of the connections that a client has by
	// default.
	maxInFlight = 8
	// enoughRequests is the number of different requests that are sent beside the call in flight.
	enoughRequests = 32
	// gatherFor is the longest time for which a call waits for further requests.
	gatherFor = 500 * time.Microsecond
)

var (
	// errFull is returned if maxWaiting callers wait already.
	errFull = errors.New("too many decisions are waiting")
	// errClosed is returned after the client was closed.
	errClosed = errors.New("client is closed")
)

// batcher puts decisions that are requested at the same time into one call. A request is sent at once if no call is in
// flight. Requests that arrive while a call is in flight wait, and are sent together when it returns: the higher the
// load, the more requests share a call. A call keeps the order of arrival.
//
// One call at a time is enough for requests that are merged: with two, as many callers make twice as many calls of half
// the size, and are no faster. Enough different requests are sent beside the call in flight, because Redis judges one
// call while this process makes the other. When a call is in flight for longer than `overdue`, its reply may be lost,
// and the waiters have a deadline. The next call is sent meanwhile, so that a lost reply fails only its own callers.
//
// A goroutine of its own sends each batch that waited; calls.Wait waits for these goroutines. So a caller may leave at
// any time, and the call continues for the others. Only sendSingle makes a call in the goroutine of its caller.
type batcher struct {
	send    func(ctx context.Context, b *batch) error
	overdue time.Duration

	mu       sync.Mutex // guards the fields down to closed, and the batches that wait
	waiting  []*batch   // only the last batch accepts requests
	queued   int        // number of waiters of the waiting batches
	current  *batch     // the call that the waiting batches wait for, or nil
	sentAt   time.Time  // when current was sent
	inFlight int        // calls in flight, overdue ones included
	timer    *time.Timer
	closed   bool
	calls    sync.WaitGroup

	stats counters
}

// join merges a charge with the last request that waits, and reports whether they are equal. On a hot key most are, and
// the names of states need not be built for them.
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

// enqueue puts r, the request of charges, into a batch.
func (b *batcher) enqueue(ctx context.Context, r *request, charges []limit.Charge) (waiter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return waiter{}, errClosed
	case b.queued >= maxWaiting:
		b.stats.rejected.Add(1)
		return waiter{}, errFull
	}
	n := len(b.waiting)
	if n == 0 || !b.waiting[n-1].hasRoomFor(r) {
		b.waiting, n = append(b.waiting, newBatch()), n+1
		b.setTimer()
	}
	last := b.waiting[n-1]
	w, merged := last.add(ctx, r)
	b.queued++
	if merged {
		b.stats.merged.Add(1)
	} else {
		last.storeRecent(charges)
	}
	b.flush()
	return w, nil
}

// flush sends the first batch that waits if there is no current call, or if only one call is in flight and the batch
// has enough requests; mu is held.
func (b *batcher) flush() {
	if len(b.waiting) == 0 || b.current != nil && (b.inFlight > 1 || len(b.waiting[0].requests) < enoughRequests) {
		return
	}
	next := b.waiting[0]
	b.waiting[0] = nil
	b.waiting = b.waiting[1:]
	b.queued -= next.waiters
	b.beginCall(next)
	b.calls.Go(func() {
		next.err = b.sendBatch(next)
		next.release()
		close(next.done)
		b.awaitCallers(next)
		b.finishCall(next)
	})
}

// beginCall records that a call is sent, for which later requests wait; mu is held.
func (b *batcher) beginCall(next *batch) {
	next.sent = true
	b.current, b.sentAt = next, time.Now()
	b.inFlight++
	b.setTimer()
}

// setTimer sets the timer that ends the wait for an overdue call; mu is held.
func (b *batcher) setTimer() {
	switch {
	case b.current == nil:
	case len(b.waiting) == 0: // the first that comes sets it
	case b.timer == nil:
		b.timer = time.AfterFunc(b.overdue-time.Since(b.sentAt), b.onOverdue)
	default:
		b.timer.Reset(b.overdue - time.Since(b.sentAt))
	}
}

// finishCall records that a call has ended, and sends the batch that waits for it.
func (b *batcher) finishCall(own *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	if b.current == own {
		b.current = nil
	}
	b.skipOverdue()
}

// sendSingle makes a call for one request in the caller's own goroutine if no call is in flight and no batch waits, and
// reports whether it did. That avoids two switches of goroutines, a third of the latency of a single caller. go-redis
// observes the deadline of a context and not Done, so a request whose context ends only by cancellation is not sent
// this way.
func (b *batcher) sendSingle(ctx context.Context, r *request) (w waiter, ok bool, err error) {
	if _, bounded := ctx.Deadline(); !bounded && ctx.Done() != nil {
		return waiter{}, false, nil
	}
	b.mu.Lock()
	if b.current != nil || len(b.waiting) > 0 || b.closed {
		b.mu.Unlock()
		return waiter{}, false, nil
	}
	own := r.singleBatch()
	b.beginCall(own)
	b.mu.Unlock()
	defer b.finishCall(own)
	b.stats.countCall(1)
	return waiter{batch: own, place: 1}, true, b.send(ctx, own)
}

// sendBatch makes the call of a batch, which lasts at most until the last deadline of its waiters.
func (b *batcher) sendBatch(own *batch) error {
	wanted := own.wantedCount()
	if wanted == 0 {
		return context.Canceled // no waiter is left to read the reply
	}
	ctx := context.Background()
	if !own.noDeadline {
		within, cancel := context.WithDeadline(ctx, own.until)
		defer cancel()
		ctx = within
	}
	b.stats.countCall(uint64(wanted))
	return b.send(ctx, own)
}

// send makes one call of lua/limit_many.lua.
func (l *shardLimiter) send(ctx context.Context, b *batch) error {
	args := l.args.Get().(*[]any)
	defer func() { clear(*args); l.args.Put(args) }()
	*args = b.encode(append((*args)[:0], "evalsha", l.many.Hash()))
	cmd := redis.NewIntSliceCmd(ctx, *args...)
	err := l.rdb.Process(ctx, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		(*args)[0], (*args)[1] = "eval", l.manyText
		cmd = redis.NewIntSliceCmd(ctx, *args...)
		err = l.rdb.Process(ctx, cmd)
	}
	if err != nil {
		return err
	}
	return b.decode(cmd.Val())
}

// awaitCallers lets the callers run whose results have just arrived, so that their next requests are sent with the next
// call and not with the call after it. If many callers made few different requests, a call costs as much with all of
// them as with some, so awaitCallers waits while the number of requests grows, up to gatherFor. Otherwise it returns at
// once, so that Redis has work to do.
func (b *batcher) awaitCallers(own *batch) {
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

// onOverdue sends the waiting batch beside a call that is overdue.
func (b *batcher) onOverdue() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skipOverdue()
}

// skipOverdue stops waiting for a call that is overdue, and sends the batch that waited for it; mu is held.
func (b *batcher) skipOverdue() {
	if b.current != nil && time.Since(b.sentAt) >= b.overdue && b.inFlight < maxInFlight && !b.closed {
		b.current = nil
	}
	b.flush()
}

// wait waits for the reply, or leaves when the context ends. A waiter that leaves before the batch is sent is not
// charged; later that is not known.
func (b *batcher) wait(ctx context.Context, w waiter) error {
	select {
	case <-w.batch.done:
		return w.batch.err
	case <-ctx.Done():
	}
	b.stats.canceled.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.batch.sent {
		q := &w.batch.requests[w.request]
		q.gone = append(q.gone, w.place)
	}
	return ctx.Err()
}

// close rejects new requests. Calls in flight, and batches that wait, fail when the connections are closed; calls.Wait
// waits for that.
func (b *batcher) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
