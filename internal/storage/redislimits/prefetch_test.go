package redislimits

import (
	"context"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// prefetching are processes that prefetch.
func prefetching(t testing.TB, n int, most int64, addrs ...string) (all []*Prefetch, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range n {
		c := openWith(t, redisclient.Config{Addrs: addrs, Namespace: "test", Timeout: 5 * time.Second})
		l := c.Prefetch(most)
		running.Go(func() { _ = l.Run(ctx) })
		for !l.running.Load() {
			runtime.Gosched() // until it runs
		}
		all = append(all, l)
	}
	return all, func() { cancel(); running.Wait() }
}

func hotCharge(burst, cost int64) limit.Charge {
	return limit.Charge{
		Subject: limit.Subject{Space: "hot", Name: "topic?id=42"}, Cost: cost,
		Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: 10 * time.Minute, Burst: burst},
	}
}

// mayLose is what two processes may lose in a test on a machine that is too busy to
// hear of a fetch in time: one fetch of most each, whose tokens stay charged.
func mayLose(t *testing.T, all []*Prefetch, most int64) int64 {
	t.Helper()
	lost := int64(0)
	for _, l := range all {
		lost += int64(l.Stats().Lost)
	}
	if lost > 2*most {
		t.Errorf("%d lost", lost)
	}
	return lost
}

// hammer asks from many callers until one is denied or a number of requests
// is through, and says how many were allowed.
func hammer(t testing.TB, all []*Prefetch, c limit.Charge, requests int64) int64 {
	var admitted, asked atomic.Int64
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			results := make([]limit.Result, 1)
			for asked.Add(1) <= requests {
				ok, err := all[i%len(all)].Take(context.Background(), time.Now(), []limit.Charge{c}, results)
				switch {
				case err != nil:
					t.Error(err)
				case ok:
					admitted.Add(c.Cost)
				}
			}
		})
	}
	callers.Wait()
	return admitted.Load()
}

// The bucket hardly refills during the test: all processes together allow no more than
// it held, and the tokens they still hold at the end are refunded, on one server and on
// a cluster.
func TestPrefetchAddUp(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, stop := prefetching(t, 2, 500, addrs...)
			const burst = 60_000
			c := hotCharge(burst, 1)
			first := hammer(t, all, c, 20_000)
			if first != 20_000 {
				t.Errorf("%d of 20,000 admitted, with %d tokens", first, burst)
			}
			total := first + hammer(t, all, c, 2*burst)
			stop()
			var st PrefetchStats
			for _, l := range all {
				one := l.Stats()
				st.Grants, st.Local, st.Held = st.Grants+one.Grants, st.Local+one.Local, st.Held+one.Held
			}
			if st.Grants == 0 || st.Local == 0 || st.Held != 0 {
				t.Errorf("%+v", st)
			}
			// Near the end a token may be held while a request is denied.
			total += hammer(t, all, c, 2000)
			if lost := mayLose(t, all, 500); total > burst || total < burst-lost {
				t.Errorf("%d admitted of %d, %d lost", total, burst, lost)
			}
		})
	}
}

// A request with limits beside that of the hot key pays that one from memory and asks
// for the others. Where one of them denies nothing is charged, what was held neither.
func TestPrefetchBesideWindows(t *testing.T) {
	t.Parallel()
	for name, addrs := range serverAndCluster(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, stop := prefetching(t, 2, 500, addrs...)
			const burst, perClient, nClients = 60_000, 200, 20
			bucket := hotCharge(burst, 1)
			var admitted [nClients]atomic.Int64
			var asked, wrong atomic.Int64
			var callers sync.WaitGroup
			began := time.Now()
			for i := range 16 {
				callers.Go(func() {
					charges, results := []limit.Charge{{}, bucket, {}}, make([]limit.Result, 3)
					for n := asked.Add(1); n <= 20_000; n = asked.Add(1) {
						client := hottype.ClientFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(n % nClients)}))
						charges[0] = limit.Charge{Subject: limit.Subject{Space: "ip_fixed", Client: client}, Cost: 1,
							Spec: limit.Spec{Algorithm: limit.FixedWindow, Limit: perClient,
								Window: 30 * 24 * time.Hour}}
						charges[2] = limit.Charge{Subject: limit.Subject{Space: "ip_sliding", Client: client}, Cost: 1,
							Spec: limit.Spec{Algorithm: limit.SlidingWindow, Limit: 10 * perClient,
								Window: 30 * 24 * time.Hour}}
						ok, err := all[i%2].Take(context.Background(), time.Now(), charges, results)
						switch {
						case err != nil:
							t.Error(err)
						case ok:
							admitted[n%nClients].Add(1)
						}
						if ok != results[0].Allowed || !results[1].Allowed || results[0].Limit != perClient ||
							results[2].Limit != 10*perClient || results[1].Limit != burst {
							wrong.Add(1)
						}
					}
				})
			}
			callers.Wait()
			busy := time.Since(began) < 5*time.Second // twice what prefetching is worth it for
			total := int64(0)
			for i := range admitted {
				if n := admitted[i].Load(); n != perClient {
					t.Errorf("client %d: %d admitted, want %d", i, n, perClient)
				}
				total += admitted[i].Load()
			}
			if wrong.Load() > 0 {
				t.Errorf("%d answers are not those of their limits", wrong.Load())
			}
			stop()
			if st := all[0].Stats(); busy && st.Local == 0 || st.Held != 0 {
				t.Errorf("%+v", st)
			}
			// What a bucket regains while a charge is on its way back is not given
			// twice: of all these refunds together less than a token.
			lost := mayLose(t, all, 500) + 1
			if total += hammer(t, all, bucket, 2*burst); total > burst || total < burst-lost {
				t.Errorf("%d admitted of %d, %d lost", total, burst, lost)
			}
		})
	}
}

// What is not used goes back within its life, and tokens of a limit that has
// changed is not used any more.
func TestPrefetchGoBack(t *testing.T) {
	t.Parallel()
	all, stop := prefetching(t, 1, 500, redistest.Start(t).Addr())
	defer stop()
	l, burst := all[0], int64(100_000)
	taken := hammer(t, all, hotCharge(burst, 1), 5000)
	left := func(spec int64) int64 {
		results := make([]limit.Result, 1)
		c := hotCharge(spec, 0)
		if _, err := l.store.Take(context.Background(), time.Time{}, []limit.Charge{c}, results); err != nil {
			t.Fatal(err)
		}
		return results[0].Remaining
	}
	// What a busy server did not confirm within a second may be charged or not.
	returned := func() bool {
		got := left(burst)
		return got <= burst-taken && got >= burst-taken-int64(l.Stats().Lost)
	}
	redistest.Eventually(t, "what is not used", returned)
	hammer(t, all, hotCharge(burst, 1), 5000)
	before := l.Stats().Local
	if n := hammer(t, all, hotCharge(2000, 1), 100); n != 0 || l.Stats().Local != before {
		t.Errorf("under a lower limit, of which nothing is left, %d admitted, %d of them in memory", n,
			l.Stats().Local-before)
	}
}

// A process that dies takes at most what it holds with it, and no other gets more.
func TestCrashLosesAtMostPrefetchedTokens(t *testing.T) {
	t.Parallel()
	all, stop := prefetching(t, 2, 300, redistest.Start(t).Addr())
	defer stop()
	const burst = 50_000
	c := hotCharge(burst, 1)
	total := hammer(t, all[:1], c, 10_000)
	all[0].mu.Lock() // it stands still for good: what it holds is never given back
	held := int64(0)
	for _, v := range all[0].keys.Range {
		held += v.(*prefetchKey).held.Swap(0)
	}
	all[0].mu.Unlock()
	total += hammer(t, all[1:], c, 2*burst)
	stop()
	total += hammer(t, all[1:], c, 1000)
	if lost := held + max(300, mayLose(t, all, 300)); total > burst || total < burst-lost {
		t.Errorf("%d admitted of %d, %d died, %d may be lost", total, burst, held, lost)
	}
}

// Without many requests, or without much left, nothing is prefetched.
func TestPrefetchOnlyWhereTheyPay(t *testing.T) {
	t.Parallel()
	all, stop := prefetching(t, 1, 500, redistest.Start(t).Addr())
	defer stop()
	hammer(t, all, hotCharge(1000, 1), 50)
	small := hotCharge(30, 1)
	small.Subject.Name = "small"
	hammer(t, all, small, 5000)
	if st := all[0].Stats(); st.Grants != 0 || st.Held != 0 {
		t.Errorf("%+v", st)
	}
}

// TestPrefetchedIsOneChargeOfACost: several charges, and looks, are for the server.
func TestPrefetchedIsOneChargeOfACost(t *testing.T) {
	t.Parallel()
	all, stop := prefetching(t, 1, 500, redistest.Start(t).Addr())
	defer stop()
	one, look := hotCharge(100_000, 1), hotCharge(100_000, 0)
	hammer(t, all, one, 5000)
	redistest.Eventually(t, "tokens to be held", func() bool { return all[0].Stats().Held > 10 })
	for name, charges := range map[string][]limit.Charge{"two": {one, one}, "a look": {look}, "none": {}} {
		if all[0].TakePrefetched(charges, make([]limit.Result, len(charges))) {
			t.Errorf("%s: taken", name)
		}
	}
	if !all[0].TakePrefetched([]limit.Charge{one}, make([]limit.Result, 1)) {
		t.Error("one of cost 1 is not taken")
	}
}
