package gate_test

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// A request that may wait is allowed with a wait, in order, and denied at once when that
// would be too long.
func TestRequestsWaitInOrder(t *testing.T) {
	t.Parallel()
	for text, waits := range map[string][]time.Duration{ // in ms; -1 means denied
		"rate: 10, burst: 2, wait: 250ms":          {0, 0, 100, 200, -1, -1},
		"algorithm: bursty, rate: 10, wait: 250ms": {0, 100, 200, -1, -1}, // nothing is stored at first
		// cold: 298 ms for the first, 294 for the second
		"algorithm: warming_up, rate: 10, warm_up: 10s, wait: 550ms": {0, 298, -1, -1},
		"algorithm: leaky_bucket, rate: 10, burst: 2":                {0, 100, 200, -1},
	} {
		for _, scope := range []string{"instance", "cluster"} {
			b := build(t, `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {`+text+`, scope: `+scope+`}}
`, gate.Config{})
			b.hot("topic?id=42")
			held := uint64(0)
			for i, want := range waits {
				v := b.get("/topic?id=42", "192.0.2.1")
				if v.Allowed != (want >= 0) || v.Allowed && v.Wait != want*time.Millisecond {
					t.Errorf("%s, %s: request %d: %+v, want a wait of %d ms", text, scope, i, v, want)
				}
				if want > 0 {
					held++
				}
			}
			if v := b.get("/topic?id=7", "192.0.2.1"); v.Wait != 0 {
				t.Errorf("%s, %s: a cold key waits: %+v", text, scope, v)
			}
			if n := b.Stats().Delayed; n != held {
				t.Errorf("%s, %s: %d held back, want %d", text, scope, n, held)
			}
		}
	}
}

// A denial blocks the key for as long as the rule says, without asking the store
// again, until the rule changes.
func TestDenialBlocks(t *testing.T) {
	t.Parallel()
	rule := func(block string) string {
		return `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 10, burst: 2` + block + `}}
`
	}
	b := build(t, rule(", block: 5s"), gate.Config{})
	b.hot("topic?id=42")
	for range 2 {
		b.get("/topic?id=42", "192.0.2.1")
	}
	if v := b.get("/topic?id=42", "192.0.2.1"); v.Allowed || v.RetryAfter != 5*time.Second {
		t.Fatalf("one too many: %+v", v)
	}
	b.now = b.now.Add(4 * time.Second)
	if v := b.get("/topic?id=42", "192.0.2.1"); v.Allowed || v.RetryAfter != time.Second {
		t.Errorf("after 4 s: %+v", v)
	}
	if st := b.Stats(); st.StoreCalls != 3 || st.CachedDenials != 1 {
		t.Errorf("%d calls of the store, %d spared, want 3 and 1", st.StoreCalls, st.CachedDenials)
	}
	b.SetRules(parse(t, rule("")))
	if v := b.get("/topic?id=42", "192.0.2.1"); !v.Allowed {
		t.Errorf("under a rule that does not block: %+v", v)
	}
	b.SetRules(parse(t, rule(", block: 5s")))
	b.now = b.now.Add(time.Second)
	if v := b.get("/topic?id=42", "192.0.2.1"); !v.Allowed {
		t.Errorf("when it is over: %+v", v)
	}
}
