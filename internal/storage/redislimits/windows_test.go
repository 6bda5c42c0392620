package redislimits

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// processes returns n processes that share windows, each with connections of its own.
func processes(t testing.TB, n int, addrs ...string) []*Windows {
	t.Helper()
	var all []*Windows
	for range n {
		c := openWith(t, redisclient.Config{Addrs: addrs, Namespace: "test", Timeout: 5 * time.Second})
		all = append(all, patient(c))
	}
	return all
}

// patient returns windows whose calls may take long, because machines are busy.
func patient(c *Limiter) *Windows {
	w := c.Windows()
	w.callTimeout, w.probeTimeout = redistest.Patience, redistest.Patience
	return w
}

// exchange exchanges all shards once.
func (w *Windows) exchange(ctx context.Context) {
	for i := range w.shards {
		w.shards[i].runExchange(ctx)
	}
}

func visitor(n byte) hottype.Client {
	return hottype.ClientFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, n}))
}

func windowCharge(client hottype.Client, algorithm limit.Algorithm, most int64, window time.Duration,
	cost int64) limit.Charge {
	return limit.Charge{
		Subject: limit.Subject{Space: string(algorithm), Client: client},
		Spec:    limit.Spec{Algorithm: algorithm, Limit: most, Window: window}, Cost: cost,
	}
}

// ask makes one charge and returns its result.
func (w *Windows) ask(t interface{ Fatal(...any) }, now time.Time, c limit.Charge) limit.Result {
	results := make([]limit.Result, 1)
	if _, err := w.Take(context.Background(), now, []limit.Charge{c}, results); err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// Within a window a process allows exactly the remaining amount that it knows: the limit without its own sum and
// without the sums that the others had written when it last exchanged. So n processes allow at most n times the limit,
// and once all have exchanged, all know the exact sum. This holds on one server and on a cluster.
func TestWindows_AllowExactlyWhatTheyKnowToRemain(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, ctx, trial := processes(t, 3, addrs...), context.Background(), 0
			for _, w := range all {
				w.exchange(ctx) // the clocks are one
			}
			rapid.Check(t, func(rt *rapid.T) {
				trial++
				algorithm := rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow}).
					Draw(rt, "algorithm")
				most := rapid.Int64Range(1, 20).Draw(rt, "limit")
				c := windowCharge(hottype.Client{Name: fmt.Sprint(trial)}, algorithm, most, 300*24*time.Hour, 1)
				var total int64
				own := make([]int64, len(all))     // allowed by each process
				written := make([]int64, len(all)) // the part of own that Redis has
				others := make([]int64, len(all))  // allowed by others, as far as each process knows
				hasAsked := make([]bool, len(all)) // since its last exchange; without a request it exchanges nothing
				for range rapid.IntRange(1, 80).Draw(rt, "steps") {
					i := rapid.IntRange(0, len(all)-1).Draw(rt, "process")
					if rapid.IntRange(0, 4).Draw(rt, "exchange") == 0 {
						all[i].exchange(ctx)
						if hasAsked[i] {
							written[i], hasAsked[i], others[i] = own[i], false, 0
							for j := range all {
								if j != i {
									others[i] += written[j]
								}
							}
						}
						continue
					}
					hasAsked[i] = true
					allowed := all[i].ask(rt, time.Now(), c).Allowed
					if want := own[i]+others[i] < most; allowed != want {
						rt.Fatalf("process %d, which has allowed %d and knows of %d more: allowed %v, want %v of %d",
							i, own[i], others[i], allowed, want, most)
					}
					if allowed {
						total++
						own[i]++
					}
				}
				if total > most*int64(len(all)) {
					rt.Fatalf("%d admitted, at most %d x %d", total, len(all), most)
				}
				peek := c
				peek.Cost = 0
				for range 2 { // the others read the last sums when they ask again
					for _, w := range all {
						w.ask(rt, time.Now(), peek)
						w.exchange(ctx)
					}
				}
				for i, w := range all {
					if got := w.ask(rt, time.Now(), peek).Remaining; got != max(0, most-total) {
						rt.Fatalf("process %d: %d left of %d after %d", i, got, most, total)
					}
				}
			})
		})
	}
}

// A server that is away delays no caller, Fresh reports that the sums are old, and when the server is back without its
// data all sums are written again.
func TestWindowsOutlastAnOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all, ctx := processes(t, 2, s.Addr()), context.Background()
	c, quiet := windowCharge(visitor(1), limit.FixedWindow, 100, 300*24*time.Hour, 1),
		windowCharge(visitor(2), limit.SlidingWindow, 100, 300*24*time.Hour, 1)
	exchange := func() {
		for _, w := range all {
			w.exchange(ctx)
		}
	}
	for _, w := range all {
		w.ask(t, time.Now(), c)
		w.ask(t, time.Now(), quiet)
	}
	exchange()
	s.Kill()
	for range 5 {
		all[0].ask(t, time.Now(), c)
		exchange()
	}
	if st := all[0].Stats(); st.Errors != 5 || st.Stale != 1 {
		t.Errorf("5 exchanges with a dead server: %+v", st)
	}
	if now := time.Now(); all[0].Fresh(now.Add(2*time.Second), &c.Subject) {
		t.Error("fresh without having heard of anybody for 2 s")
	}
	s.Relaunch() // and it has lost everything
	for range 2 {
		exchange()
	}
	for i, w := range all {
		if !w.Fresh(time.Now(), &c.Subject) || w.Stats().Stale != 0 {
			t.Errorf("process %d, after the outage: %+v", i, w.Stats())
		}
	}
	c.Cost, quiet.Cost = 0, 0
	for range 2 {
		for i, w := range all {
			for _, charge := range []limit.Charge{c, quiet} {
				w.ask(t, time.Now(), charge)
				w.exchange(ctx)
				if got, want := w.ask(t, time.Now(), charge).Remaining, int64(100-2); got != want && charge != c ||
					charge == c && got != want-5 {
					t.Errorf("process %d: %d left of %s", i, got, charge.Subject.Space)
				}
			}
		}
	}
}

// With any number of callers, Redis and each process know the sum of all allowed requests in the end, while sums are
// exchanged all the time.
func TestWindows_AddUpWithConcurrentCallers(t *testing.T) {
	t.Parallel()
	all := processes(t, 2, redistest.Start(t).Addr())
	ctx, stop := context.WithCancel(context.Background())
	var running, callers sync.WaitGroup
	for _, w := range all {
		running.Go(func() { _ = w.Run(ctx) })
	}
	c := windowCharge(visitor(1), limit.SlidingWindow, 1<<12, 20*24*time.Hour, 1)
	for i := range 8 {
		callers.Go(func() {
			for range 200 {
				all[i%2].ask(t, time.Now(), c)
				request := []limit.Charge{c}
				if now := time.Now(); all[i%2].ask(t, now, c).Allowed {
					all[i%2].RefundAt(now, request)
				}
			}
		})
	}
	callers.Wait()
	stop()
	running.Wait()
	peek := c
	peek.Cost = 0
	for _, w := range all {
		w.ask(t, time.Now(), peek)
		w.exchange(context.Background())
	}
	if got := all[1].ask(t, time.Now(), peek).Remaining; got != 1<<12-8*200 {
		t.Errorf("%d left, want %d; %+v", got, 1<<12-8*200, all[1].Stats())
	}
}

// BenchmarkWindows measures a decision by both windows of a client.
func BenchmarkWindows(b *testing.B) {
	w := processes(b, 1, redistest.Start(b).Addr())[0]
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	defer running.Wait()
	defer stop()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		results, n := make([]limit.Result, 2), byte(0)
		charges := make([]limit.Charge, 2)
		for pb.Next() {
			n++
			charges[0] = windowCharge(visitor(n), limit.FixedWindow, 1<<40, time.Second, 1)
			charges[1] = windowCharge(visitor(n), limit.SlidingWindow, 1<<20, time.Minute, 1)
			if ok, err := w.Take(ctx, time.Now(), charges, results); err != nil || !ok {
				b.Error(ok, err)
			}
		}
	})
}

// Charges of one client or name are recorded together, and each subject is counted once.
func TestWindowsCountTheirSubjects(t *testing.T) {
	t.Parallel()
	w := processes(t, 1, redistest.Start(t).Addr())[0]
	now := time.Unix(1_700_000_000, 0)
	for i := range byte(40) {
		w.ask(t, now, windowCharge(visitor(i%20), limit.FixedWindow, 9, time.Minute, 1))
	}
	if st := w.Stats(); st.Subjects != 20 {
		t.Errorf("%+v", st)
	}
	a, b := windowCharge(visitor(1), limit.FixedWindow, 9, time.Minute, 1),
		windowCharge(visitor(2), limit.FixedWindow, 9, time.Minute, 1)
	for n, charges := range map[int][]limit.Charge{1: {a, b, a}, 2: {a, a, b}, 3: {a, a, a}} {
		if _, got := w.firstStripe(charges); got != n {
			t.Errorf("%d are of the first client, want %d", got, n)
		}
	}
}

// Without decisions sums are exchanged once a second, and the first decision after that does not find them unknown.
func TestWindows_ExchangeSlowlyWhileIdle(t *testing.T) {
	t.Parallel()
	w := processes(t, 1, redistest.Start(t).Addr())[0]
	shard, subject := &w.shards[0], limit.Subject{Client: visitor(1)}
	at := func(ms int) time.Time { return w.born.Add(20*time.Second + time.Duration(ms)*time.Millisecond) }
	shard.lastAnswer.Store(int64(20 * time.Second))
	shard.lastExchange.Store(int64(20 * time.Second))
	w.decided.Store(int64(15 * time.Second))
	if shard.idleTime(at(500)) != 0 {
		t.Error("idle five seconds after a decision")
	}
	if w.Fresh(at(450), &subject) {
		t.Error("without an answer for 450 ms, and not idle, the sums are known")
	}
	w.decided.Store(int64(time.Second))
	if shard.idleTime(at(500)) != 450*time.Millisecond || shard.idleTime(at(960)) != 0 {
		t.Error("not exchanged once a second while idle")
	}
	shard.failed = true
	if shard.idleTime(at(500)) != 0 {
		t.Error("idle after a failure")
	}
	shard.failed = false
	if len(shard.woken) != 0 {
		t.Error("woken without a decision")
	}
	for _, step := range []struct {
		ms    int
		fresh bool
	}{{900, true}, {1200, true}, {1310, false}} {
		if w.Fresh(at(step.ms), &subject) != step.fresh || shard.idleTime(at(step.ms)) != 0 {
			t.Errorf("%d ms after the last exchange: the sums are known: %v", step.ms, !step.fresh)
		}
	}
	if len(shard.woken) != 1 {
		t.Error("not woken by the first decision")
	}
}
