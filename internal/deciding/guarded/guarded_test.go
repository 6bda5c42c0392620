package guarded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

const budget = 20 * time.Millisecond

// shardError is an error that names its shard.
type shardError int

func (e shardError) Error() string    { return fmt.Sprint("shard ", int(e)) }
func (e shardError) FailedShard() int { return int(e) }

// fake is a store whose answers a test sets. A subject is on the shard that its name says.
type fake struct {
	limit.Store
	servers   []string // by shard
	answer    func(ctx context.Context, results []limit.Result) (bool, error)
	calls     int
	deadlines []time.Time
}

func (f *fake) Take(ctx context.Context, _ time.Time, _ []limit.Charge, results []limit.Result) (bool, error) {
	f.calls++
	d, _ := ctx.Deadline()
	f.deadlines = append(f.deadlines, d)
	return f.answer(ctx, results)
}

func (f *fake) Shards() int                { return len(f.servers) }
func (f *fake) Shard(s *limit.Subject) int { return int(s.Name[0] - '0') }
func (f *fake) Server(shard int) string    { return f.servers[shard] }

var errDown = errors.New("down")

func (f *fake) fails(err error) {
	f.answer = func(context.Context, []limit.Result) (bool, error) { return false, err }
}

func (f *fake) allows() {
	f.answer = func(context.Context, []limit.Result) (bool, error) { return true, nil }
}

// world is a guarded store in fake time.
type world struct {
	*testing.T
	*fake
	s    *Store
	log  *bytes.Buffer
	call Call
}

func bubble(t *testing.T, servers []string, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, fake: &fake{servers: servers}, log: &bytes.Buffer{}}
		w.s = NewStore(w.fake, budget, slog.New(slog.NewTextHandler(w.log, nil)))
		w.allows()
		time.Sleep(time.Minute)
		f(w)
	})
}

// take makes a decision about one charge for each shard, a moment after the last one.
func (w *world) take(shards ...int) error {
	w.Helper()
	time.Sleep(time.Microsecond)
	w.call.Reset()
	_, err := w.again(shards...)
	return err
}

// again is one more call of the same decision.
func (w *world) again(shards ...int) ([]limit.Result, error) {
	charges, results := w.charges(shards)
	_, err := w.s.Take(w.Context(), &w.call, time.Now(), charges, results)
	return results, err
}

func (w *world) charges(shards []int) ([]limit.Charge, []limit.Result) {
	charges := make([]limit.Charge, len(shards))
	for i, n := range shards {
		charges[i].Subject.Name = fmt.Sprint(n)
	}
	return charges, make([]limit.Result, len(shards))
}

// failed are the shards whose charges are on the server that failed the last call.
func (w *world) failed(shards ...int) (list []bool) {
	charges, _ := w.charges(shards)
	for i := range charges {
		list = append(list, w.s.Failed(&w.call, &charges[i]))
	}
	return list
}

func (w *world) lines() int { return strings.Count(w.log.String(), "\n") }

// Five failures in a row open the breaker, no fewer. Open, it lets one call through every quarter of a
// second, until one succeeds.
func TestBreaker(t *testing.T) {
	t.Parallel()
	bubble(t, []string{""}, func(w *world) {
		for range 4 {
			w.fails(errDown)
			for range 4 {
				if err := w.take(0); err != errDown {
					w.Error(err)
				}
			}
			w.allows()
			if err := w.take(0); err != nil {
				w.Error(err)
			}
		}
		if st := w.s.Stats(); st.StoreOpened != 0 || st.StoreOpen || w.lines() != 0 {
			w.Errorf("four in a row opened it: %+v", st)
		}
		w.fails(errDown)
		calls := w.calls
		for range 9 {
			if err := w.take(0); err == nil || !w.s.Failed(&w.call, &limit.Charge{}) {
				w.Error(err)
			}
		}
		if st := w.s.Stats(); w.calls != calls+5 || st.StoreSkipped != 4 || st.StoreOpened != 1 || !st.StoreOpen ||
			st.BreakersOpen != 1 || st.Breakers != 1 {
			w.Errorf("%d calls, %+v", w.calls-calls, st)
		}
		began := time.Now()
		for probes := 0; probes < 3; {
			if before := w.calls; w.take(0) != nil && w.calls > before {
				probes++
				if after := time.Since(began); after < 249*time.Millisecond || after > 251*time.Millisecond {
					w.Errorf("a probe after %v", after)
				}
				began = time.Now()
			}
			time.Sleep(100 * time.Microsecond)
		}
		w.allows()
		time.Sleep(250 * time.Millisecond)
		for range 3 {
			if err := w.take(0); err != nil {
				w.Error(err)
			}
		}
		if st := w.s.Stats(); st.StoreOpen || st.StoreOpened != 1 || st.StoreClosed != 1 || st.BreakersOpen != 0 ||
			st.StoreCalls != uint64(w.calls) || st.StoreErrors != 4*4+5+3 {
			w.Errorf("%d calls, %+v", w.calls, st)
		}
		if out := w.log.String(); w.lines() != 2 || !strings.Contains(out, "shared store fails") ||
			!strings.Contains(out, "consecutive_failures=5 err=down") || !strings.Contains(out, "answers again") {
			w.Errorf("%s", out)
		}
	})
}

// Calls that fail together are one failure.
func TestCallsThatFailTogether(t *testing.T) {
	t.Parallel()
	bubble(t, []string{""}, func(w *world) {
		var calls sync.WaitGroup
		for range 4 {
			hold := make(chan struct{})
			w.answer = func(context.Context, []limit.Result) (bool, error) { <-hold; return false, errDown }
			for range 20 {
				calls.Go(func() {
					var c Call
					charges, results := w.charges([]int{0})
					_, _ = w.s.Take(w.Context(), &c, time.Now(), charges, results)
				})
				synctest.Wait()
			}
			time.Sleep(time.Millisecond)
			close(hold)
			calls.Wait()
			time.Sleep(time.Millisecond)
		}
		if st := w.s.Stats(); st.StoreOpened != 0 || st.StoreErrors != 80 {
			w.Errorf("%+v", st)
		}
		w.fails(errDown)
		if _ = w.take(0); !w.s.Stats().StoreOpen {
			w.Error("five failures do not open it")
		}
	})
}

// All calls of a decision share one budget, which is never longer and at most a twentieth shorter.
func TestBudgetOfADecision(t *testing.T) {
	t.Parallel()
	bubble(t, []string{""}, func(w *world) {
		began := time.Now().Add(time.Microsecond)
		if err := w.take(0); err != nil || !w.deadlines[0].Equal(began.Add(budget)) {
			w.Errorf("%v, until %v", err, w.deadlines[0].Sub(began))
		}
		time.Sleep(budget/20 - 2*time.Microsecond)
		if err := w.take(0); err != nil || !w.deadlines[1].Equal(w.deadlines[0]) {
			w.Errorf("%v: not shared", err)
		}
		if err := w.take(0); err != nil || !w.deadlines[2].Equal(time.Now().Add(budget)) {
			w.Errorf("%v: shared for too long: %v", err, time.Until(w.deadlines[2]))
		}
		time.Sleep(budget / 2)
		if _, err := w.again(0); err != nil || !w.deadlines[3].Equal(w.deadlines[2]) {
			w.Errorf("%v: another call has a budget of its own", err)
		}
		time.Sleep(budget)
		if _, err := w.again(0); err != context.DeadlineExceeded || w.calls != 4 {
			w.Errorf("%v after the budget, %d calls", err, w.calls)
		}
		if err := w.take(0); err != nil || w.calls != 5 {
			w.Errorf("%v in the next decision, %d calls", err, w.calls)
		}
	})
}

// A store is not asked for a client that has left, and the caller's mistakes do not open its breaker.
func TestCallsThatAreNotMade(t *testing.T) {
	t.Parallel()
	bubble(t, []string{""}, func(w *world) {
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		if _, err := w.s.Take(ended, &w.call, time.Now(), nil, nil); err != context.Canceled || w.calls != 0 {
			w.Errorf("%v, %d calls", err, w.calls)
		}
		for _, err := range []error{limit.ErrNegativeCost, limit.ErrChargeCount} { // the caller's fault
			w.fails(err)
			for range 20 {
				if got := w.take(0); got != err {
					w.Error(got)
				}
			}
		}
		if st := w.s.Stats(); st.StoreOpened != 0 || st.StoreErrors != 40 {
			w.Errorf("%+v", st)
		}
	})
}

// A panic goes on to the caller and counts as a failure, also of a probe.
func TestStore_CountsPanicsAsFailures(t *testing.T) {
	t.Parallel()
	bubble(t, []string{""}, func(w *world) {
		w.answer = func(context.Context, []limit.Result) (bool, error) { panic("x") }
		panics := func() (p any) {
			defer func() { p = recover() }()
			_ = w.take(0)
			return nil
		}
		for range 5 {
			if p := panics(); p != "x" {
				w.Errorf("%v", p)
			}
		}
		for range 2 {
			if st := w.s.Stats(); !st.StoreOpen || st.StoreOpened != 1 || panics() != nil {
				w.Errorf("%+v", st)
			}
			time.Sleep(251 * time.Millisecond)
			if p := panics(); p != "x" {
				w.Errorf("no probe: %v", p)
			}
		}
		w.allows()
		time.Sleep(251 * time.Millisecond)
		if err := w.take(0); err != nil || w.s.Stats().StoreOpen {
			w.Errorf("%v: a probe that panicked was never over", err)
		}
		if !strings.Contains(w.log.String(), "guarded: shared store: panic") {
			w.Errorf("%s", w.log)
		}
	})
}

// Servers have breakers of their own as soon as one fails, so that calls to the others go on.
func TestEachServerHasABreaker(t *testing.T) {
	t.Parallel()
	bubble(t, []string{"a", "b", "a", ""}, func(w *world) {
		if all, open := w.s.breakers.countBreakers(); all != 1 || open != 0 {
			w.Errorf("%d breakers at first, %d open", all, open)
		}
		w.fails(shardError(0))
		for range 5 {
			if err := w.take(0, 1); err != shardError(0) {
				w.Error(err)
			}
			if got := fmt.Sprint(w.failed(0, 1, 2, 3)); got != "[true false true false]" {
				w.Errorf("failed: %s", got)
			}
		}
		if st := w.s.Stats(); st.Breakers != 3 || st.BreakersOpen != 1 || st.StoreOpened != 1 {
			w.Errorf("%+v", st)
		}
		w.allows()
		for shard, open := range []bool{true, false, true, false} {
			if err := w.take(shard); (err != nil) != open {
				w.Errorf("shard %d: %v", shard, err)
			}
		}
		if err := w.take(1, 2); err == nil || fmt.Sprint(w.failed(1, 2)) != "[false true]" {
			w.Errorf("%v, failed %v", err, w.failed(1, 2))
		}
		time.Sleep(251 * time.Millisecond)
		if err := w.take(1, 2); err != nil || w.s.Stats().StoreOpen || w.s.Stats().StoreSkipped != 3 {
			w.Errorf("%v, %+v", err, w.s.Stats())
		}
		if out := w.log.String(); !strings.Contains(out, "server=a") || strings.Contains(out, "server=b") {
			w.Errorf("%s", out)
		}
	})
}

// After a shard has moved, its failures count against the server that it is on now.
func TestShardsMove(t *testing.T) {
	t.Parallel()
	bubble(t, []string{"a", "b", "b"}, func(w *world) {
		w.fails(shardError(0))
		_ = w.take(0) // learns a and b
		w.servers[0] = "b"
		for range 4 {
			_ = w.take(0)
		}
		if st := w.s.Stats(); st.StoreOpened != 0 {
			w.Errorf("%+v", st)
		}
		_ = w.take(0)
		w.allows()
		for shard := range 3 {
			if err := w.take(shard); err == nil {
				w.Errorf("shard %d is not behind the open breaker", shard)
			}
		}
		if st := w.s.Stats(); st.StoreOpened != 1 || st.Breakers != 1 || st.BreakersOpen != 1 {
			w.Errorf("%+v", st)
		}
	})
}

// A shard whose server is unknown for a while stays behind the breaker that it had.
func TestServersAreUnknownForAWhile(t *testing.T) {
	t.Parallel()
	bubble(t, []string{"a", "b"}, func(w *world) {
		w.fails(shardError(0))
		for i := range 5 {
			if i == 2 {
				w.servers[0] = ""
			}
			_ = w.take(0)
		}
		if st := w.s.Stats(); st.Breakers != 2 || st.BreakersOpen != 1 || st.StoreOpened != 1 {
			w.Errorf("%+v", st)
		}
	})
}

// An error that names no shard, or one that does not exist, counts against all servers of the call, and
// against the only one if there is one.
func TestErrorsWithoutAShard(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errDown, shardError(-1), shardError(2)} {
		bubble(t, []string{"a", "b"}, func(w *world) {
			w.fails(err)
			_ = w.take(0, 1) // teaches that there are two servers
			w.allows()
			_ = w.take(0, 1)
			w.fails(err)
			for range 5 {
				_ = w.take(0, 1)
				if got := fmt.Sprint(w.failed(0, 1)); got != "[true true]" {
					w.Errorf("%v: failed %s", err, got)
				}
			}
			if st := w.s.Stats(); st.BreakersOpen != st.Breakers || !st.StoreOpen {
				w.Errorf("%v: %+v", err, st)
			}
		})
		bubble(t, []string{"a", "b"}, func(w *world) {
			w.fails(err)
			for range 6 {
				_ = w.take(1)
			}
			w.allows()
			if a, b := w.take(0), w.take(1); a != nil || b == nil {
				w.Errorf("%v: %v and %v", err, a, b)
			}
		})
	}
}

// Where one shard denies, one that did not answer has failed, and nothing remains there.
func TestStore_CountsUnansweredShards(t *testing.T) {
	t.Parallel()
	bubble(t, []string{"a", "b"}, func(w *world) {
		w.answer = func(_ context.Context, results []limit.Result) (bool, error) {
			results[0].Remaining, results[1].Remaining = -1, 7
			return false, nil
		}
		for range 6 {
			time.Sleep(time.Microsecond)
			w.call.Reset()
			results, err := w.again(0, 1)
			if err == nil && (results[0].Remaining != 0 || results[1].Remaining != 7) {
				w.Errorf("%+v, %v", results, err)
			}
		}
		w.allows()
		if a, b := w.take(0), w.take(1); a == nil || b != nil {
			w.Errorf("a: %v, b: %v", a, b)
		}
		if st := w.s.Stats(); st.StoreErrors != 0 {
			w.Errorf("%+v", st)
		}
	})
}

// Of a store that fails again and again one outage in ten seconds is logged, with its end.
func TestOutagesInTheLog(t *testing.T) {
	t.Parallel()
	bubble(t, []string{""}, func(w *world) {
		outage := func() {
			w.fails(errDown)
			for range 5 {
				_ = w.take(0)
			}
			time.Sleep(250 * time.Millisecond)
			w.allows()
			_ = w.take(0)
		}
		began := time.Now()
		for i := 1; time.Since(began) < 29*time.Second; i++ {
			outage()
			if st := w.s.Stats(); st.StoreOpened != uint64(i) || st.StoreClosed != uint64(i) {
				w.Errorf("%d outages: %+v", i, st)
			}
		}
		if w.lines() != 6 || strings.Count(w.log.String(), "after=250ms") != 3 {
			w.Errorf("%d lines\n%s", w.lines(), w.log)
		}
	})
}

// An outage that lasts is logged after five seconds, also where its beginning was not because of one before.
func TestBreaker_LogsALastingOutage(t *testing.T) {
	t.Parallel()
	bubble(t, []string{""}, func(w *world) {
		outage := func(lasts time.Duration) {
			w.fails(errDown)
			for began := time.Now(); time.Since(began) < lasts; time.Sleep(time.Millisecond) {
				_ = w.take(0)
			}
			w.allows()
			time.Sleep(250 * time.Millisecond)
			_ = w.take(0)
		}
		outage(time.Second)
		outage(4500 * time.Millisecond)
		if w.lines() != 2 {
			w.Errorf("%d lines of outages that do not last\n%s", w.lines(), w.log)
		}
		time.Sleep(time.Minute)
		outage(time.Second)
		outage(5500 * time.Millisecond) // ends within ten seconds of the first
		time.Sleep(time.Minute)
		outage(time.Minute)
		if w.lines() != 2+2+2+3 || strings.Count(w.log.String(), "shared store fails persistently") != 2 ||
			!strings.Contains(w.log.String(), "for=5s err=down") {
			w.Errorf("%d lines\n%s", w.lines(), w.log)
		}
	})
}

// The next outage that is logged begins ten seconds after the last one that was, or later.
func TestOutageAfterTenSeconds(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]int{10*time.Second - 1: 2, 10 * time.Second: 3} {
		bubble(t, []string{""}, func(w *world) {
			outageAt := func(at time.Time) {
				time.Sleep(time.Until(at) - 5*time.Microsecond)
				w.fails(errDown)
				for range 5 {
					_ = w.take(0)
				}
			}
			first := time.Now().Add(time.Second)
			outageAt(first)
			time.Sleep(time.Second)
			w.allows()
			_ = w.take(0)
			if outageAt(first.Add(after)); w.lines() != want {
				w.Errorf("%v later: %d lines, want %d\n%s", after, w.lines(), want, w.log)
			}
		})
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := NewGuard("shares", budget, slog.New(slog.NewTextHandler(&log, nil)))
		time.Sleep(time.Minute)
		called := 0
		do := func(result error) error {
			return g.Do(func(ctx context.Context) error {
				called++
				if d, _ := ctx.Deadline(); !d.Equal(time.Now().Add(budget)) {
					t.Errorf("until %v", time.Until(d))
				}
				return result
			})
		}
		if err := do(nil); err != nil || called != 1 {
			t.Errorf("%v, %d calls", err, called)
		}
		time.Sleep(time.Second)
		if err := do(errDown); err != errDown || called != 2 {
			t.Errorf("%v, %d calls", err, called)
		}
		if err := do(nil); err == nil || called != 2 {
			t.Errorf("after a failure: %v, %d calls", err, called)
		}
		time.Sleep(251 * time.Millisecond)
		if err := do(nil); err != nil || called != 3 {
			t.Errorf("%v, %d calls", err, called)
		}
		func() {
			defer func() { _ = recover() }()
			_ = g.Do(func(context.Context) error { panic("x") })
		}()
		if err := do(nil); err == nil || called != 3 {
			t.Errorf("after a panic: %v, %d calls", err, called)
		}
		if out := log.String(); !strings.Contains(out, "calls=shares") || !strings.Contains(out, "err=down") {
			t.Errorf("%s", out)
		}
	})
}

func TestLatencyIsCountedByItsBound(t *testing.T) {
	t.Parallel()
	var l latency
	want, sum := [8]uint64{}, time.Duration(0)
	for i, bound := range latencyBounds() {
		for k, d := range []time.Duration{bound, bound + 1} {
			l.add(d)
			want[i+k]++
			sum += d
		}
	}
	const us, ms = time.Microsecond, time.Millisecond
	bounds := [7]time.Duration{100 * us, 250 * us, 500 * us, ms, 2500 * us, 10 * ms, 20 * ms}
	if got := l.read(); got.Counts != want || got.Sum != sum || got.Bounds != bounds {
		t.Errorf("%+v, want %v and %v", got, want, sum)
	}
}
