package gate_test

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// stocked is an unreliable store that has some answers at hand.
type stocked struct {
	*unreliable
	stock int
}

func (s *stocked) TakePrefetched(charges []limit.Charge, results []limit.Result) bool {
	if s.stock == 0 || len(charges) != 1 {
		return false
	}
	s.stock--
	results[0] = limit.Result{Allowed: true, Limit: 100, Remaining: int64(s.stock)}
	return true
}

// Prefetched tokens are used first, without a call, also while
// the store is away and its breaker open.
func TestPrefetched(t *testing.T) {
	t.Parallel()
	store := &stocked{unreliable: newUnreliable(healthy), stock: 3}
	b := build(t, `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 1, burst: 2, on_store_failure: closed}}
`, gate.Config{Shared: store, Budget: time.Hour})
	b.hot("topic?id=42")
	ask := func(want bool, calls int32) {
		t.Helper()
		if v := b.get("/topic?id=42", "192.0.2.1"); v.Allowed != want || store.calls.Load() != calls {
			t.Fatalf("allowed %v after %d calls, want %v after %d: %+v", v.Allowed, store.calls.Load(), want, calls, v)
		}
	}
	for range 3 {
		ask(true, 0)
	}
	ask(true, 1) // of the two that the store has
	store.mode.Store(failing)
	for i := range int32(5) {
		ask(false, 2+i)
	}
	ask(false, 6) // the breaker is open
	store.stock = 1
	ask(true, 6)
	ask(false, 6)
	if st := b.Stats(); st.StoreCalls != 6 {
		t.Errorf("%+v", st)
	}
}
