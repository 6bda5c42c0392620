package redislimits

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// manual is a batcher whose calls end when the test sends an answer, or when their context ends.
type manual struct {
	batcher
	sentBatches chan *batch // each as its call is made
	answer      chan error
}

func newManual() *manual {
	a := &manual{sentBatches: make(chan *batch), answer: make(chan error)}
	a.overdue = time.Hour
	a.send = func(ctx context.Context, f *batch) error {
		a.sentBatches <- f
		select {
		case err := <-a.answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return a
}

// enqueues enqueues n equal requests and returns their waiters.
func (a *manual) enqueues(t *testing.T, ctx context.Context, name string, n int) []waiter {
	t.Helper()
	r, waiters := new(request), make([]waiter, n)
	spec := limit.Spec{Algorithm: limit.FixedWindow, Limit: 3, Window: time.Second}
	charges := []limit.Charge{{Subject: limit.Subject{Space: "test", Name: name}, Spec: spec, Cost: 1}}
	if err := r.set(newKeys("test"), charges); err != nil {
		t.Fatal(err)
	}
	for i := range waiters {
		var err error
		if waiters[i], err = a.enqueue(ctx, r, charges); err != nil {
			t.Fatal(err)
		}
	}
	return waiters
}

// Requests that arrive during a call share the next call, and equal requests share a place in it.
func TestBatcher_GathersRequestsDuringCall(t *testing.T) {
	t.Parallel()
	a, ctx := newManual(), context.Background()
	first := a.enqueues(t, ctx, "a", 1)
	if f := redistest.Next(t, a.sentBatches, "first call"); f.wantedCount() != 1 {
		t.Fatalf("first call: %d requests", f.wantedCount())
	}
	a.enqueues(t, ctx, "a", 5)
	a.enqueues(t, ctx, "b", 1)
	last := a.enqueues(t, ctx, "a", 2)
	failed := errors.New("lost")
	a.answer <- failed
	if err := a.wait(ctx, first[0]); !errors.Is(err, failed) {
		t.Errorf("a call that fails fails its callers: %v", err)
	}
	f := redistest.Next(t, a.sentBatches, "second call")
	if len(f.requests) != 2 || f.requests[0].wantedCount() != 7 || last[1].place != 7 {
		t.Errorf("second call: %+v, last place %d", f.requests, last[1].place)
	}
	a.answer <- nil
	a.calls.Wait()
	if s := a.stats.read(); s != (Stats{Calls: 2, Decisions: 9, Merged: 6, Largest: 8}) {
		t.Errorf("%+v", s)
	}
}

// A batch of enough different requests is sent beside a call that is out, and while two are out further requests wait.
func TestBatcherSendsEnoughBesideACall(t *testing.T) {
	t.Parallel()
	a, ctx := newManual(), context.Background()
	different := func(n, from int) {
		for i := range n {
			a.enqueues(t, ctx, strconv.Itoa(from+i), 1)
		}
	}
	state := func() (out, waiting int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.inFlight, len(a.waiting)
	}
	different(1, 0)
	redistest.Next(t, a.sentBatches, "first call")
	different(enoughRequests-1, 1)
	a.enqueues(t, ctx, "1", 2*enoughRequests)
	if out, waiting := state(); out != 1 || waiting != 1 {
		t.Errorf("%d calls, %d wait, with one request less than enough", out, waiting)
	}
	different(1, enoughRequests)
	if f := redistest.Next(t, a.sentBatches, "second call"); len(f.requests) != enoughRequests {
		t.Errorf("second call: %d requests", len(f.requests))
	}
	different(2*enoughRequests, 2*enoughRequests)
	if out, waiting := state(); out != 2 || waiting != 1 {
		t.Errorf("%d calls, %d wait, with two in flight", out, waiting)
	}
	a.answer <- nil
	if f := redistest.Next(t, a.sentBatches, "third call"); len(f.requests) != 2*enoughRequests {
		t.Errorf("third call: %d requests", len(f.requests))
	}
	a.answer <- nil
	a.answer <- nil
	a.calls.Wait()
}

// A waiter that leaves before a batch is sent is not charged, and a call without waiters is not made.
func TestBatcher_DoesNotChargeWaitersThatLeave(t *testing.T) {
	t.Parallel()
	a, ctx := newManual(), context.Background()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	first := a.enqueues(t, ctx, "a", 1)
	redistest.Next(t, a.sentBatches, "first call")
	stay, leave := a.enqueues(t, ctx, "a", 3), a.enqueues(t, ctx, "a", 2)
	for _, s := range []waiter{first[0], leave[0], leave[1], stay[0]} {
		if err := a.wait(gone, s); !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v", err)
		}
	}
	a.answer <- nil
	f := redistest.Next(t, a.sentBatches, "second call")
	if f.wantedCount() != 2 {
		t.Errorf("%d requests, want the 2 that stayed", f.wantedCount())
	}
	f.answer = []int64{1, 1, 500, 500} // one of the two fits
	for i, want := range []bool{true, false} {
		if got := stay[i+1].readResults(make([]limit.Result, 1)); got != want {
			t.Errorf("place %d: %v", i, got)
		}
	}
	abandoned := a.enqueues(t, ctx, "a", 1)
	_ = a.wait(gone, abandoned[0])
	a.answer <- nil
	a.calls.Wait() // would hang if a third call were made
	if s := a.stats.read(); s.Calls != 2 || s.Canceled != 5 {
		t.Errorf("%+v", s)
	}
}

// A waiter of a call that hangs returns when its context ends, by a deadline or a cancellation, and other waiters
// continue to wait.
func TestBatcherWait_ReturnsWhenContextEnds(t *testing.T) {
	t.Parallel()
	a, ctx := newManual(), context.Background()
	waiters := a.enqueues(t, ctx, "a", 1)
	redistest.Next(t, a.sentBatches, "first call")
	gone, cancel := context.WithCancel(ctx)
	late, stop := context.WithTimeout(ctx, 3*time.Millisecond/2)
	defer stop()
	done := make(chan error, 3)
	for _, c := range []context.Context{ctx, gone, late} {
		go func(s waiter) { done <- a.wait(c, s) }(append(waiters, a.enqueues(t, c, "a", 1)...)[1])
	}
	if err := redistest.Next(t, done, "deadline"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	cancel()
	if err := redistest.Next(t, done, "cancellation"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancellation: %v", err)
	}
	a.answer <- nil
	if f := redistest.Next(t, a.sentBatches, "second call"); f.wantedCount() != 1 {
		t.Errorf("%d requests, want the one that stayed", f.wantedCount())
	}
	a.answer <- nil
	if err := redistest.Next(t, done, "answer"); err != nil {
		t.Errorf("who stayed: %v", err)
	}
	a.calls.Wait()
}

// A charge joins the last request only if it is the same in every field, and joins no request once another one was
// enqueued.
func TestBatcherJoin_NeedsEqualCharge(t *testing.T) {
	t.Parallel()
	a, ctx := newManual(), context.Background()
	a.current, a.sentAt = newBatch(), time.Now() // nothing is sent
	a.enqueues(t, ctx, "a", 2)
	spec := limit.Spec{Algorithm: limit.FixedWindow, Limit: 3, Window: time.Second}
	known := limit.Charge{Subject: limit.Subject{Space: "test", Name: "a"}, Spec: spec, Cost: 1}
	if w, ok := a.join(ctx, &known); !ok || w.place != 3 {
		t.Fatalf("third: %+v, %v", w, ok)
	}
	changes := map[string]func(*limit.Charge){
		"cost":  func(c *limit.Charge) { c.Cost = 2 },
		"limit": func(c *limit.Charge) { c.Spec.Limit = 4 },
		"space": func(c *limit.Charge) { c.Subject.Space = "tess" },
		"name":  func(c *limit.Charge) { c.Subject.Name = "i" },
		"none":  func(c *limit.Charge) { *c = limit.Charge{} },
	}
	for what, change := range changes {
		other := known
		change(&other)
		if _, ok := a.join(ctx, &other); ok {
			t.Errorf("another %s is taken for the same", what)
		}
	}
	r, other := new(request), known
	other.Cost = 2
	for _, charges := range [][]limit.Charge{{other}, {known, other}} {
		if err := r.set(newKeys("test"), charges); err != nil {
			t.Fatal(err)
		}
		if _, err := a.enqueue(ctx, r, charges); err != nil {
			t.Fatal(err)
		}
		for _, c := range []limit.Charge{known, {}} {
			if _, ok := a.join(ctx, &c); ok {
				t.Errorf("%+v overtakes or joins another request", c)
			}
		}
	}
}

// The size of a call is bounded, and so is the number of waiters.
func TestBatcher_BoundsCallsAndWaiters(t *testing.T) {
	t.Parallel()
	a, ctx := newManual(), context.Background()
	a.enqueues(t, ctx, "a", 1)
	redistest.Next(t, a.sentBatches, "first call")
	a.enqueues(t, ctx, "a", maxWaiting)
	if _, err := a.enqueue(ctx, new(request), nil); !errors.Is(err, errFull) {
		t.Errorf("one too many: %v", err)
	}
	for range maxWaiting / maxWaiters {
		a.answer <- nil
		if f := redistest.Next(t, a.sentBatches, "call"); f.wantedCount() != maxWaiters {
			t.Errorf("%d requests", f.wantedCount())
		}
	}
	a.close()
	if _, err := a.enqueue(ctx, new(request), nil); !errors.Is(err, errClosed) {
		t.Errorf("closed: %v", err)
	}
	a.answer <- nil
	a.calls.Wait()
	if s := a.stats.read(); s.Rejected != 1 || s.Largest != maxWaiters {
		t.Errorf("%+v", s)
	}
}

// With a clock that stands still, 256 callers get the capacity and no more, and
// no caller gets an error because of the others.
func TestLimiter_AllowsCapacityToManyCallers(t *testing.T) {
	t.Parallel()
	l := openLimiter(t, redistest.Start(t).Addr())
	setClock(l.rdb, time.Unix(1_700_000_000, 0))
	var admitted atomic.Int64
	var callers sync.WaitGroup
	for range 256 {
		callers.Go(func() {
			charges, results := aRequest()
			charges[0].Spec.Limit, charges[0].Spec.Burst = 1000, 1000
			for range 20 {
				ok, err := l.Take(context.Background(), time.Time{}, charges[:1], results[:1])
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					admitted.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if admitted.Load() != 1000 {
		t.Errorf("%d admitted, want 1000", admitted.Load())
	}
	if s := l.batcher.stats.read(); s.Decisions != 5120 || s.Calls > 5000 {
		t.Errorf("%+v", s)
	}
}

// While the server hangs every caller returns by its deadline. The limiter works again when the server does.
func TestLimiter_KeepsDeadlinesWhileServerHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := openLimiter(t, s.Addr())
	within := func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		charges, results := aRequest()
		_, err := l.Take(ctx, time.Time{}, charges, results)
		return err
	}
	if err := within(redistest.Patience); err != nil {
		t.Fatal(err)
	}
	charges, _ := aRequest()
	limittest.RunDeadline(t, l, s.Freeze, charges...)
	if err := within(50 * time.Millisecond); err == nil {
		t.Error("a frozen server has answered")
	}
	s.Thaw()
	if err := within(redistest.Patience); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// Every store that a gate may use keeps the deadline, on a server and on a cluster of which one node is frozen.
func TestStoresHoldTheDeadline(t *testing.T) {
	t.Parallel()
	charges := []limit.Charge{hotCharge(100, 1), windowCharge(visitor(1), limit.FixedWindow, 1000, time.Minute, 1)}
	check := func(t *testing.T, addrs []string, freeze func(*Limiter), thaw func()) {
		l := open(t, addrs...)
		redistest.Eventually(t, "a first answer", func() bool {
			_, err := l.Take(t.Context(), time.Time{}, charges, make([]limit.Result, len(charges)))
			return err == nil
		})
		once := sync.OnceFunc(func() { freeze(l) })
		defer thaw()
		for name, store := range map[string]limit.Store{"limiter": l, "windows": l.Windows()} {
			t.Run(name, func(t *testing.T) {
				limittest.RunDeadline(t, store, once, charges...)
			})
		}
	}
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		check(t, []string{s.Addr()}, func(*Limiter) { s.Freeze() }, s.Thaw)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		check(t, c.Addrs(), func(l *Limiter) {
			c.Master(t, l.limiterOf(&charges[0].Subject).keys.limitState(&charges[0].Subject)).Freeze()
		}, func() {
			for _, n := range c.Nodes {
				n.Thaw()
			}
		})
	})
}

// A caller whose context ended before the call is not charged.
func TestLimiter_DoesNotChargeCancelledCaller(t *testing.T) {
	t.Parallel()
	l := openLimiter(t, redistest.Start(t).Addr())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	charges, results := aRequest()
	if _, err := l.Take(ctx, time.Time{}, charges, results); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if s := l.batcher.stats.read(); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
}

// Close fails the callers that wait, and does not return before the last call has.
func TestLimiterClose_FailsWaitersAndEndsCalls(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, err := redisclient.Open(redisclient.Config{Addrs: []string{s.Addr()}, Timeout: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	c := New(client)
	s.Freeze()
	failed := make(chan error, 10)
	for range 10 {
		go func() { // ends with Close
			charges, results := aRequest()
			_, err := c.Take(t.Context(), time.Time{}, charges, results)
			failed <- err
		}()
	}
	redistest.Eventually(t, "everybody waits", func() bool {
		c.shards[0].batcher.mu.Lock()
		defer c.shards[0].batcher.mu.Unlock()
		return c.shards[0].batcher.queued+int(c.shards[0].batcher.stats.decisions.Load()) == 10
	})
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	for range 10 {
		if err := redistest.Next(t, failed, "error"); err == nil {
			t.Error("answered by a frozen server")
		}
	}
}
