package gate_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

// A denied key costs its store one call for each token, and is denied exactly
// as long as the store would.
func TestDeniedKeyIsDeniedWithoutTheStore(t *testing.T) {
	t.Parallel()
	store := newUnreliable(healthy)
	b := build(t, failureRules, gate.Config{Shared: store, Budget: time.Hour})
	b.hot("local?id=1")
	for i := range 1000 {
		if v := b.get("/local?id=1", "1.1.1.1"); v.Allowed != (i < 8) {
			t.Fatalf("%d: %+v", i, v)
		}
	}
	if n := store.calls.Load(); n != 9 {
		t.Errorf("%d calls", n)
	}
	b.now = b.now.Add(250*time.Millisecond - time.Microsecond)
	v := b.get("/local?id=1", "1.1.1.1")
	if v.Allowed || v.RetryAfter != time.Microsecond || v.ResetAfter != 1750*time.Millisecond+time.Microsecond ||
		v.Limit != 8 || v.Window != 2*time.Second {
		t.Errorf("%+v", v)
	}
	b.now = b.now.Add(time.Microsecond)
	if v := b.get("/local?id=1", "1.1.1.1"); !v.Allowed || store.calls.Load() != 10 {
		t.Errorf("%+v after %d calls", v, store.calls.Load())
	}
	if s := b.Stats(); s.CachedDenials != 992 || s.Denied[hottype.ReasonHot] != 993 {
		t.Errorf("%+v", s)
	}
}

func TestDenialOfOneCostIsNotOfAnother(t *testing.T) {
	t.Parallel()
	b := build(t, failureRules, gate.Config{})
	b.hot("local?id=1")
	req := request("/local?id=1", "1.1.1.1")
	for i, tc := range []struct {
		cost int64
		want bool
	}{{5, true}, {5, false}, {1, true}, {2, true}, {1, false}, {9, false}, {1, false}} {
		req.Cost = tc.cost
		v := b.Decide(t.Context(), b.now, req)
		if v.Allowed != tc.want || (tc.cost == 9) != (v.RetryAfter == hottype.Never) {
			t.Errorf("%d: %+v", i, v)
		}
	}
}

func TestDenialIsVoidWithItsLimit(t *testing.T) {
	t.Parallel()
	b := build(t, failureRules, gate.Config{})
	b.hot("local?id=1")
	for b.get("/local?id=1", "1.1.1.1").Allowed {
	}
	b.SetOverrides([]rules.Override{{ID: "more", Key: "local?id=1", Action: rules.ActionLimit, Rate: 100, Burst: 100}})
	if v := b.get("/local?id=1", "1.1.1.1"); !v.Allowed {
		t.Errorf("%+v", v)
	}
}

// between is a shared store that runs a function during a call, and then denies.
type between struct {
	oneServer
	do func()
}

func (s *between) Take(_ context.Context, _ time.Time, _ []limit.Charge, results []limit.Result) (bool, error) {
	if do := s.do; do != nil {
		s.do = nil
		do()
	}
	results[0] = limit.Result{Limit: 1, RetryAfter: time.Microsecond}
	return false, nil
}

// One request has the last charge of a local window during its call of the shared
// store; another is denied meanwhile. When the first is refunded, the denial of the
// second no longer holds.
func TestRefundVoidsDenials(t *testing.T) {
	t.Parallel()
	store := new(between)
	b := build(t, `
rules:
  - {name: one, match: {path: /t}, params: [id], continue: true, hot: {rate: 10}, limit: {rate: 2, scope: cluster}}
  - {name: two, match: {path: /t}, params: [id], hot: {rate: 10}, limit: {algorithm: fixed_window, limit: 1, window: 1h, scope: instance}}
`, gate.Config{Shared: store, Budget: time.Hour})
	b.hot("one?id=1", "two?id=1")
	store.do = func() {
		for range 2 {
			if v := b.get("/t?id=1", "1.1.1.1"); v.Allowed || v.Rule != "two" {
				t.Errorf("%+v", v)
			}
		}
	}
	if v := b.get("/t?id=1", "1.1.1.1"); v.Allowed || v.Rule != "one" || b.Stats().CachedDenials != 1 {
		t.Errorf("%+v", v)
	}
	if v := b.get("/t?id=1", "1.1.1.1"); v.Rule != "one" {
		t.Errorf("%+v: the place was given back", v)
	}
}

// A clock that is set back does not make a remembered denial longer than the limit's own, which ends where the clock is
// further behind than clocks of machines differ.
func TestDenialWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	b := build(t, failureRules, gate.Config{})
	b.hot("local?id=1")
	var last hottype.Verdict
	for range 10 {
		last = b.get("/local?id=1", "1.1.1.1")
	}
	b.now = b.now.Add(-9 * time.Second)
	if v := b.get("/local?id=1", "1.1.1.1"); v.Allowed || v.RetryAfter != last.RetryAfter {
		t.Errorf("nine seconds back: %+v, before %+v", v, last)
	}
	b.now = b.now.Add(-time.Hour)
	if v := b.get("/local?id=1", "1.1.1.1"); !v.Allowed {
		t.Errorf("an hour back: %+v", v)
	}
}

// A verdict does not depend on denials that are remembered: the limits that this process keeps are judged in any case.
func TestDeny_IsTheSameWithoutMemory(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"in process": `
rules:
  - {name: one, match: {path: /t}, params: [a], continue: true, hot: {rate: 10}, limit: {rate: 2, burst: 2, scope: instance}}
  - {name: two, match: {path: /t}, params: [b], hot: {rate: 10}, limit: {rate: 3, burst: 4, scope: instance},
     per_client: {fixed: {limit: 4, window: 5s, scope: instance}}}
ip: {fixed: {limit: 6, window: 10s, scope: instance}, sliding: {limit: 3, window: 2s, scope: instance}}
`,
		"the key shared": `
rules:
  - {name: two, match: {path: /t}, params: [b], hot: {rate: 10}, limit: {rate: 2, burst: 2},
     per_client: {fixed: {limit: 4, window: 5s, scope: instance}}}
ip: {fixed: {limit: 6, window: 10s, consistency: async}, sliding: {limit: 3, window: 2s, consistency: async}}
`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			denied := map[hottype.Reason]int{}
			rapid.Check(t, func(rt *rapid.T) {
				var gates [2]*bundle
				for i := range gates {
					gates[i] = assemble(parse(rt, text), gate.Config{
						Async: &exchanged{Memory: limit.NewMemory(limit.MemoryConfig{}), fresh: true}})
					gates[i].hot("one?a=1", "two?b=1", "two?b=2")
				}
				for range rapid.IntRange(1, 80).Draw(rt, "requests") {
					step := time.Duration(rapid.SampledFrom([]int{0, 0, 50, 1000}).Draw(rt, "ms")) * time.Millisecond
					target := "/t?" + rapid.SampledFrom([]string{"", "a=1&"}).Draw(rt, "a") +
						rapid.SampledFrom([]string{"", "b=1", "b=2", "b=3"}).Draw(rt, "b")
					client := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}).Draw(rt, "client")
					var verdicts [2]hottype.Verdict
					for i, g := range gates {
						g.now = g.now.Add(step)
						verdicts[i] = g.get(target, client)
					}
					if verdicts[0] != verdicts[1] {
						rt.Fatalf("%s of %s: %+v, without memory %+v", target, client, verdicts[0], verdicts[1])
					}
					if !verdicts[0].Allowed {
						denied[verdicts[0].Reason]++
					}
					gates[1].ForgetDenials()
				}
			})
			for _, r := range []hottype.Reason{hottype.ReasonHot, hottype.ReasonIPFixed, hottype.ReasonIPSliding,
				hottype.ReasonClientFixed} {
				if denied[r] == 0 {
					t.Errorf("no request was denied by %s", r)
				}
			}
		})
	}
}

// A denial that is remembered for a key charges nothing to the windows of the client.
func TestDeny_RemembersWithoutCharges(t *testing.T) {
	t.Parallel()
	b := build(t, asyncRules+"local}}\n", gate.Config{
		Async: &exchanged{Memory: limit.NewMemory(limit.MemoryConfig{}), fresh: true}})
	b.hot("topic?id=42")
	for i := range 100 {
		if v := b.get("/topic?id=42", "192.0.2.1"); v.Allowed != (i < 2) {
			t.Fatalf("request %d: %+v", i, v)
		}
	}
	if v := b.get("/topic?id=7", "192.0.2.1"); !v.Allowed || v.Remaining != 3 {
		t.Errorf("%+v, want 3 of 6 left", v)
	}
}
