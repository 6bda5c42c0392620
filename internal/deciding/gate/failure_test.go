package gate_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

const failureRules = `
rules:
  - name: local
    match: {path: /local}
    params: [id]
    hot: {rate: 10}
    limit: {algorithm: token_bucket, rate: 4, burst: 8, scope: cluster, on_store_failure: local}
  - name: open
    match: {path: /open}
    params: [id]
    hot: {rate: 10}
    limit: {algorithm: token_bucket, rate: 4, burst: 8, scope: cluster, on_store_failure: open}
  - name: closed
    match: {path: /closed}
    params: [id]
    hot: {rate: 10}
    limit: {algorithm: token_bucket, rate: 4, burst: 8, scope: cluster, on_store_failure: closed}
`

func broken(t *testing.T, store gate.SharedStore, log *slog.Logger) *bundle {
	b := build(t, failureRules, gate.Config{Shared: store, Limiters: func() int { return 4 }, Log: log})
	b.hot("local?id=1", "open?id=1", "closed?id=1")
	return b
}

func TestDecide_FailurePolicies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a breaker asks again after a time
		b := broken(t, newUnreliable(failing), nil)
		for i := range 10 {
			// A quarter of the burst: four processes share the limit.
			if v := b.get("/local?id=1", "1.1.1.1"); v.Allowed != (i < 2) || v.Reason != hottype.ReasonHot ||
				v.Limit != 2 || v.Rule != "local" {
				t.Errorf("local %d: %+v", i, v)
			}
			if v := b.get("/open?id=1", "1.1.1.1"); !v.Allowed || v.Reason != hottype.ReasonStore || v.Rule != "open" {
				t.Errorf("open: %+v", v)
			}
			if v := b.get("/closed?id=1", "1.1.1.1"); v.Allowed || v.Reason != hottype.ReasonStore ||
				v.RetryAfter != time.Second || v.Key != "closed?id=1" {
				t.Errorf("closed: %+v", v)
			}
			b.now = b.now.Add(time.Millisecond)
		}
		if s := b.Stats(); s.StoreErrors != 5 || s.StoreOpened != 1 || !s.StoreOpen ||
			s.Denied[hottype.ReasonStore] != 10 ||
			s.Allowed[hottype.ReasonStore] != 10 {
			t.Errorf("%+v", s)
		}
	})
}

// A request passes if the store panics. The breaker counts a panic as a failure: after five the store is not called.
func TestPanicsOpenTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a breaker asks again after a time
		b := broken(t, newUnreliable(panicking), nil)
		b.panics = 5
		for range 10 {
			if v := b.get("/open?id=1", "1.1.1.1"); !v.Allowed || v.Reason != hottype.ReasonStore {
				t.Errorf("%+v", v)
			}
		}
		if s := b.Stats(); s.Panics != 5 || s.StoreOpened != 1 || s.Allowed[hottype.ReasonStore] != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// The share of a bucket refills at a share of the rate.
func TestFallback_RefillsAtAShare(t *testing.T) {
	t.Parallel()
	b := broken(t, newUnreliable(failing), nil)
	admitted := 0
	for range 1000 {
		if b.get("/local?id=1", "1.1.1.1").Allowed {
			admitted++
		}
		b.now = b.now.Add(10 * time.Millisecond)
	}
	if admitted != 2+9 { // burst 8/4, then 4/4 a second for 10 s less one step
		t.Errorf("%d admitted", admitted)
	}
}

// A frozen store costs one budget a probe, and no request more than that.
func TestFrozenStoreIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newUnreliable(stuck)
		b := broken(t, store, nil)
		began, waited := time.Now(), 0
		for range 3000 { // one each ms, in addition to the time waited
			at := time.Now()
			if v := b.get("/closed?id=1", "1.1.1.1"); v.Allowed {
				t.Fatalf("%+v", v)
			}
			switch took := time.Since(at); took {
			case gate.DefaultBudget:
				waited++
			case 0:
			default:
				t.Fatalf("took %v", took)
			}
			time.Sleep(time.Millisecond)
		}
		// Five until the breaker opens, then one probe in each quarter of a second.
		probes := int((time.Since(began) - 100*time.Millisecond) / (270 * time.Millisecond))
		if waited != 5+probes || int(store.calls.Load()) != waited {
			t.Errorf("%d waits, %d calls in %v", waited, store.calls.Load(), time.Since(began))
		}
	})
}

func TestBreakers_LogRecoveryOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := newUnreliable(failing)
		b := broken(t, store, slog.New(slog.NewTextHandler(&log, nil)))
		for range 200 {
			b.get("/open?id=1", "1.1.1.1")
			time.Sleep(10 * time.Millisecond)
		}
		store.mode.Store(healthy)
		time.Sleep(time.Second)
		if v := b.get("/open?id=1", "1.1.1.1"); !v.Allowed || v.Reason != hottype.ReasonHot {
			t.Errorf("%+v", v)
		}
		s := b.Stats()
		if s.StoreOpen || s.StoreOpened != 1 || s.StoreClosed != 1 || s.StoreSkipped == 0 ||
			s.StoreCalls != s.StoreErrors+1 {
			t.Errorf("%+v", s)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "err=down") ||
			!strings.Contains(log.String(), "after=2.96s") {
			t.Errorf("logged:\n%s", &log)
		}
	})
}

// A store that stalls once fails all calls in progress. They count as one failure, which does not open the breaker; if
// the next calls fail too, it opens after five.
func TestBreakers_CountOneHesitationOnce(t *testing.T) {
	t.Parallel()
	for hesitations, opened := range map[int]uint64{1: 0, 4: 0, 5: 1} {
		synctest.Test(t, func(t *testing.T) {
			store := newUnreliable(stuck)
			b := broken(t, store, nil)
			for range hesitations {
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() {
						if v := b.get("/open?id=1", "1.1.1.1"); v.Reason != hottype.ReasonStore {
							t.Errorf("%+v", v)
						}
					})
					time.Sleep(100 * time.Microsecond)
				}
				all.Wait()
			}
			store.mode.Store(healthy)
			b.get("/open?id=1", "1.1.1.1")
			if s := b.Stats(); s.StoreOpened != opened || s.StoreErrors != uint64(100*hesitations) {
				t.Errorf("%d hesitations: %+v", hesitations, s)
			}
		})
	}
}

// A charge that the shared store has allowed reduces the share: a store that repeatedly fails and recovers does not
// grant a bucket each time.
func TestOutagesGrantNoBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newUnreliable(healthy)
		b := broken(t, store, nil)
		byShare := 0
		for i := range 5000 { // 4.5 s of demand, and 0.5 s without the store, ten times
			store.mode.Store(healthy)
			if i%500 >= 450 {
				store.mode.Store(failing)
			}
			if v := b.get("/local?id=1", "1.1.1.1"); v.Allowed && v.Limit == 2 {
				byShare++
			}
			time.Sleep(10 * time.Millisecond)
			b.now = b.now.Add(10 * time.Millisecond)
		}
		// The share has the tokens since the last charge, less than one, and the tokens that flow in while the breaker
		// is open.
		if s := b.Stats(); s.StoreOpened != 10 || byShare == 0 || byShare > 10 {
			t.Errorf("%d outages, %d admitted by the share", s.StoreOpened, byShare)
		}
	})
}

// Charging the fallback for a charge that the shared store allowed denies no request, so it begins no block.
func TestFallbackChargeStartsNoBlock(t *testing.T) {
	t.Parallel()
	store := newUnreliable(healthy)
	b := build(t, `
rules:
  - name: local
    match: {path: /local}
    params: [id]
    hot: {rate: 10}
    limit: {rate: 4, burst: 8, block: 1m}
`, gate.Config{Shared: store, Limiters: func() int { return 4 }, Budget: time.Hour})
	b.hot("local?id=1")
	for range 8 { // the share is 2
		if v := b.get("/local?id=1", "1.1.1.1"); !v.Allowed {
			t.Fatalf("%+v", v)
		}
	}
	store.mode.Store(failing)
	b.now = b.now.Add(time.Second)
	if v := b.get("/local?id=1", "1.1.1.1"); !v.Allowed || v.Limit != 2 {
		t.Errorf("%+v", v)
	}
}

// A client that has left is not worth a call, and is no sign of a failing store.
func TestClientsWhoLeftDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	b := broken(t, newUnreliable(stuck), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		b.Decide(ctx, b.now, request("/open?id=1", "1.1.1.1"))
	}
	if s := b.Stats(); s.StoreOpened != 0 || s.StoreCalls != 0 || s.Allowed[hottype.ReasonStore] != 100 {
		t.Errorf("%+v", s)
	}
}

// A local charge is refunded if the policy of the shared store denies.
func TestClosedGivesBackLocalCharges(t *testing.T) {
	t.Parallel()
	b := build(t, failureRules+`
ip:
  fixed: {limit: 3, window: 1m, scope: instance}
`, gate.Config{Shared: newUnreliable(failing)})
	b.hot("closed?id=1")
	for range 10 {
		b.get("/closed?id=1", "1.1.1.1")
	}
	if v := b.get("/closed?id=2", "1.1.1.1"); !v.Allowed || v.Remaining != 2 {
		t.Errorf("%+v", v)
	}
}

// If both stores fail, a request passes by the default failure policy, and the error of the local store is counted.
func TestLocalStoreFails(t *testing.T) {
	t.Parallel()
	g := gate.New(gate.Config{Rules: parse(t, `
ip:
  fixed: {limit: 3, window: 1m, scope: cluster}
`), Local: newUnreliable(failing), Shared: newUnreliable(failing)})
	v := g.Decide(t.Context(), start(), request("/", "1.1.1.1"))
	if s := g.Stats(); !v.Allowed || v.Reason != hottype.ReasonStore || s.LocalErrors != 1 {
		t.Errorf("%+v %+v", v, s)
	}
}

// While the shared store works, this process's share is charged for limits of keys whose policy is local, and for no
// others: there are as many windows as clients.
func TestWhatIsChargedToTheShare(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]int64{"local": 1, "open": 0, "closed": 0} {
		b := build(t, `
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 9, burst: 9, on_store_failure: `+
			policy+`}}]
ip: {fixed: {limit: 9, window: 1h}, sliding: {limit: 9, window: 1h}}
`, gate.Config{})
		b.hot("topic?id=1")
		for range 3 {
			if v := b.get("/topic?id=1", "192.0.2.1"); !v.Allowed {
				t.Fatalf("%+v", v)
			}
		}
		if local, shared := b.local.Stats().Subjects, b.shared.Stats().Subjects; local != want || shared != 3 {
			t.Errorf("%s: %d subjects here and %d shared, want %d and 3", policy, local, shared, want)
		}
	}
}
