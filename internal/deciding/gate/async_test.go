package gate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// exchanged is a store of windows that has the sums of the other processes or not,
// possibly for one space only.
type exchanged struct {
	*limit.Memory
	fresh bool
	but   string
}

func (e *exchanged) Fresh(_ time.Time, s *limit.Subject) bool { return e.fresh && s.Space != e.but }

const asyncRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 1/m, burst: 2}}
ip: {fixed: {limit: 6, window: 1h, consistency: async, on_store_failure: `

// A cold request calls only the store that exchanges sums; a hot one that the
// shared store denies leaves no charge there.
func TestAsyncWindowsWaitForNothing(t *testing.T) {
	t.Parallel()
	store := &exchanged{Memory: limit.NewMemory(limit.MemoryConfig{}), fresh: true}
	b := build(t, asyncRules+"local}}\n", gate.Config{Async: store})
	b.hot("topic?id=42")
	for i := range 5 {
		if v := b.get("/topic?id=42", "192.0.2.1"); v.Allowed != (i < 2) {
			t.Errorf("hot, request %d: %+v", i, v)
		}
	}
	calls := b.Stats().StoreCalls
	for i := range 6 {
		v := b.get("/topic?id=7", "192.0.2.1")
		if v.Allowed != (i < 4) || v.Limit != 6 || !v.Allowed && v.Reason != hottype.ReasonIPFixed {
			t.Errorf("cold, request %d: %+v", i, v)
		}
	}
	if n := b.Stats().StoreCalls - calls; n != 0 {
		t.Errorf("cold requests made %d calls of the shared store", n)
	}
}

// While the sums of other processes are unknown, the rule's policy applies.
func TestAsyncWindowsAlone(t *testing.T) {
	t.Parallel()
	for policy, admitted := range map[string]int{"local": 2, "open": 9, "closed": 0} {
		store := &exchanged{Memory: limit.NewMemory(limit.MemoryConfig{})}
		b := build(t, asyncRules+policy+"}}\n", gate.Config{Async: store, Limiters: func() int { return 3 }})
		got := 0
		for range 9 {
			v := b.get("/topic?id=7", "192.0.2.1")
			if v.Allowed {
				got++
			} else if policy == "closed" && v.Reason != hottype.ReasonStore {
				t.Errorf("%s: %+v", policy, v)
			}
		}
		if got != admitted {
			t.Errorf("%s: %d admitted, want %d", policy, got, admitted)
		}
		store.fresh = true
		if v := b.get("/topic?id=7", "192.0.2.1"); !v.Allowed || v.Reason == hottype.ReasonStore {
			t.Errorf("%s: with the others known again: %+v", policy, v)
		}
	}
}

// If the sums of other processes are unknown for one window, its policy applies to it, and the other window is
// unchanged.
func TestAsyncWindowsPartlyAlone(t *testing.T) {
	t.Parallel()
	for _, but := range []string{"ip_fixed", "ip_sliding"} {
		for policy, admitted := range map[string]int64{"local": 2, "open": 4, "closed": 0} {
			store := &exchanged{Memory: limit.NewMemory(limit.MemoryConfig{}), fresh: true, but: but}
			policies := map[string]string{"ip_fixed": "local", "ip_sliding": "local"}
			policies[but] = policy
			b := build(t, fmt.Sprintf(`
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 1/m, burst: 2}}
ip:
  fixed: {limit: 4, window: 1h, consistency: async, on_store_failure: %s}
  sliding: {limit: 4, window: 1h, consistency: async, on_store_failure: %s}
`, policies["ip_fixed"], policies["ip_sliding"]), gate.Config{Async: store, Limiters: func() int { return 2 }})
			got := int64(0)
			for range 9 {
				if b.get("/topic?id=7", "192.0.2.1").Allowed {
					got++
				}
			}
			if got != admitted {
				t.Errorf("%s alone, %s: %d admitted, want %d", but, policy, got, admitted)
			}
		}
	}
}
