package redislimits

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// While a call is overdue the next one is made, so callers behind it are answered in time. The callers of the overdue
// call continue to wait, each as long as its context allows.
func TestBatcher_SendsBesideOverdueCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const overdue = 5 * time.Millisecond
		a, ctx := newManual(), t.Context()
		a.overdue = overdue
		began := time.Now()
		lost := a.enqueues(t, ctx, "a", 1)
		redistest.Next(t, a.sentBatches, "call")
		hurried, cancel := context.WithTimeout(ctx, 4*overdue)
		defer cancel()
		behind := a.enqueues(t, hurried, "a", 2)
		if f := redistest.Next(t, a.sentBatches, "call"); f.wantedCount() != 2 {
			t.Errorf("%d requests in the second call", f.wantedCount())
		}
		if took := time.Since(began); took < overdue || took > overdue+time.Millisecond {
			t.Errorf("the second call was made after %v", took)
		}
		// Two calls are out; either may be answered first.
		failed := errors.New("lost")
		a.answer <- failed
		a.answer <- failed
		for _, s := range append(lost, behind...) {
			if err := a.wait(hurried, s); !errors.Is(err, failed) {
				t.Error(err)
			}
		}
		a.calls.Wait()
	})
}

// Calls that are overdue do not take all connections.
func TestBatcherBoundsOverdueCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, ctx := newManual(), t.Context()
		a.overdue = 5 * time.Millisecond
		for range maxInFlight {
			a.enqueues(t, ctx, "a", 1)
			redistest.Next(t, a.sentBatches, "call")
		}
		a.enqueues(t, ctx, "a", 1)
		select {
		case <-a.sentBatches:
			t.Errorf("more than %d calls are out", maxInFlight)
		case <-time.After(time.Second):
		}
		a.answer <- nil // any of them
		if f := redistest.Next(t, a.sentBatches, "call"); f.wantedCount() != 1 {
			t.Errorf("%d requests", f.wantedCount())
		}
		for range maxInFlight {
			a.answer <- nil
		}
		a.calls.Wait()
		a.enqueues(t, ctx, "a", 1)
		redistest.Next(t, a.sentBatches, "call at once, as nothing is out")
		a.answer <- nil
		a.calls.Wait()
	})
}

// A call lasts until the last of its callers stops waiting, not the first, and
// without end where one of them has no deadline.
func TestBatcher_CallLastsUntilLastDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const short, long = 20 * time.Millisecond, 300 * time.Millisecond
		a := newManual()
		a.enqueues(t, t.Context(), "a", 1)
		redistest.Next(t, a.sentBatches, "call")
		first, cancel := context.WithTimeout(t.Context(), short)
		defer cancel()
		last, stop := context.WithTimeout(t.Context(), long)
		defer stop()
		began, waiters := time.Now(), append(a.enqueues(t, first, "a", 1), a.enqueues(t, last, "b", 1)...)
		a.answer <- nil
		redistest.Next(t, a.sentBatches, "call")
		var callers sync.WaitGroup
		for i, want := range []time.Duration{short, long} {
			callers.Go(func() {
				err := a.wait([]context.Context{first, last}[i], waiters[i])
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != want {
					t.Errorf("caller %d: %v after %v, want %v", i, err, took, want)
				}
			})
		}
		callers.Wait()
		a.calls.Wait()
		patient := a.enqueues(t, t.Context(), "a", 1)
		redistest.Next(t, a.sentBatches, "call")
		time.Sleep(time.Minute) // of a clock that is not real
		a.answer <- nil
		if err := a.wait(t.Context(), patient[0]); err != nil {
			t.Errorf("without a deadline: %v", err)
		}
		a.calls.Wait()
	})
}

// One lost answer to a caller without a deadline fails no other caller, whether that
// caller has made the call itself or not.
func TestBatcher_LostAnswerFailsOnlyItsCaller(t *testing.T) {
	redistest.SkipIfShort(t)
	t.Parallel()
	for name, patient := range map[string]context.Context{"own call": context.Background(),
		"call of the batcher": t.Context()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const budget = 2 * time.Second
			front := redistest.StartFaultProxy(t, redistest.Start(t).Addr())
			c := openWith(t, redisclient.Config{Addrs: []string{front.Addr()}, Namespace: "test", Timeout: 2 * budget,
				Budget: budget})
			charge := hotCharge(1000, 1)
			take := func(ctx context.Context) error {
				_, err := c.Take(ctx, time.Time{}, []limit.Charge{charge}, make([]limit.Result, 1))
				return err
			}
			if err := take(patient); err != nil {
				t.Fatal(err)
			}
			front.Set(redistest.At(1, redistest.Silent))
			lost := make(chan error, 1)
			go func() { lost <- take(patient) }()
			redistest.Eventually(t, "the call is out", func() bool { return c.Stats().Calls == 2 })
			var callers sync.WaitGroup
			for range 16 {
				callers.Go(func() {
					for range 5 {
						ctx, cancel := context.WithTimeout(context.Background(), budget)
						if err := take(ctx); err != nil {
							t.Errorf("behind a lost answer: %v", err)
						}
						cancel()
					}
				})
			}
			callers.Wait()
			if len(lost) > 0 {
				t.Errorf("the lost call has ended before the others: %v", <-lost)
			} else if err := redistest.Next(t, lost, "end of the lost call"); err == nil {
				t.Error("the lost answer has come")
			}
		})
	}
}

// A caller whose context is cancelled returns at once, however long the call lasts, also without other callers.
func TestLimiter_CancelledLoneCallerReturns(t *testing.T) {
	t.Parallel()
	front := redistest.StartFaultProxy(t, redistest.Start(t).Addr())
	c := openWith(t, redisclient.Config{Addrs: []string{front.Addr()}, Namespace: "test", Timeout: time.Minute})
	charge, ctx := hotCharge(1000, 1), t.Context()
	take := func(ctx context.Context) error {
		_, err := c.Take(ctx, time.Time{}, []limit.Charge{charge}, make([]limit.Result, 1))
		return err
	}
	if err := take(ctx); err != nil {
		t.Fatal(err)
	}
	front.Set(redistest.Silent)
	within, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- take(within) }()
	redistest.Eventually(t, "the call is out", func() bool { return c.Stats().Calls == 2 })
	cancel()
	if err := redistest.Next(t, done, "end of a cancelled call"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
