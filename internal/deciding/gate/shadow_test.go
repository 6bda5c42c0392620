package gate_test

import (
	"maps"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

// A limit in shadow mode denies no request, and is judged by itself: another limit in shadow mode
// that would deny the request does not keep it from its charge. The shared store is not called.
func TestShadowLimits_DenyNothing(t *testing.T) {
	t.Parallel()
	store := newUnreliable(failing)
	b := build(t, `
rules:
  - {name: here, match: {path: /t}, params: [id], continue: true, hot: {rate: 10}, limit: {rate: 1/h, burst: 3, scope: instance, mode: shadow}}
  - {name: all, match: {path: /t}, params: [id], hot: {rate: 10}, limit: {rate: 1/h, burst: 1, scope: cluster, mode: shadow}}
`, gate.Config{Shared: store})
	b.hot("here?id=1", "all?id=1")
	for i := range 2 { // the second one is one too many for all
		if v := b.get("/t?id=1", "1.1.1.1"); !v.Allowed || v.WouldDeny != (i > 0) || v.Mode != hottype.ModeShadow {
			t.Errorf("request %d: %+v", i, v)
		}
	}
	b.hot("here?id=1") // now it is charged alone, and has 1 of 3
	for i := range 4 {
		if v := b.get("/t?id=1", "1.1.1.1"); !v.Allowed || v.WouldDeny != (i > 0) || v.Remaining != 0 {
			t.Errorf("request %d of the one that is kept here: %+v", i, v)
		}
	}
	if n := store.calls.Load(); n != 0 {
		t.Errorf("%d calls of the shared store", n)
	}
	r := b.Report(b.now)
	if len(r.Keys) != 1 || r.WouldDeny != 4 || r.Keys[0].WouldDeny != 3 || r.Keys[0].Allowed != 6 {
		t.Errorf("the report has %d, and %+v", r.WouldDeny, r.Keys)
	}
}

// TestShadowLimits_CountByRule counts each request once, under the first that would deny it: overrides that block, then
// windows of the client, then limits of keys in the order of the rules.
func TestShadowLimits_CountByRule(t *testing.T) {
	t.Parallel()
	b := build(t, `
rules:
  - {name: here, match: {path: /t}, params: [id], continue: true, hot: {rate: 10}, limit: {rate: 1/h, burst: 3, mode: shadow}}
  - {name: all, match: {path: /t}, params: [id], hot: {rate: 10}, limit: {rate: 1/h, burst: 1, mode: shadow}}
ip: {fixed: {limit: 6, window: 1h, mode: shadow}}
`, gate.Config{})
	if by := b.Stats().WouldDenyBy; by != nil {
		t.Errorf("before the first request: %v", by)
	}
	b.SetOverrides([]rules.Override{
		{ID: "block", Key: "all?id=9", Action: rules.ActionBlock, Mode: hottype.ModeShadow},
		{ID: "client", Client: "3.3.3.3", Action: rules.ActionBlock, Mode: hottype.ModeShadow},
		{ID: "limit", Key: "here?id=8", Action: rules.ActionLimit, Rate: 0.0001, Burst: 1, Mode: hottype.ModeShadow},
	})
	b.hot("here?id=1", "all?id=1")
	for i, step := range []struct{ target, client, rule string }{
		{"/t?id=1", "1.1.1.1", ""}, {"/t?id=1", "1.1.1.1", "all"}, {"/t?id=1", "1.1.1.1", "all"},
		{"/t?id=1", "1.1.1.1", "here"}, {"/t?id=1", "1.1.1.1", "here"}, {"/t?id=1", "1.1.1.1", "here"},
		{"/t?id=1", "1.1.1.1", "ip_fixed"}, {"/t?id=1", "1.1.1.1", "ip_fixed"}, {"/t?id=1", "2.2.2.2", "here"},
		{"/t?id=9", "1.1.1.1", "block"}, {"/t?id=1", "3.3.3.3", "client"}, {"/t?id=8", "2.2.2.2", ""},
		{"/t?id=8", "2.2.2.2", "limit"},
	} {
		v := b.get(step.target, step.client)
		if !v.Allowed || v.WouldDenyRule != step.rule || v.WouldDeny != (step.rule != "") {
			t.Errorf("request %d: %+v, want %q", i, v, step.rule)
		}
	}
	s := b.Stats()
	want := map[string]uint64{"all": 2, "here": 4, "ip_fixed": 2, "block": 1, "client": 1, "limit": 1}
	if !maps.Equal(s.WouldDenyBy, want) || s.WouldDeny != 11 {
		t.Errorf("%d: %v, want 11: %v", s.WouldDeny, s.WouldDenyBy, want)
	}
}

// A limit in shadow mode is not charged for requests that another limit denies, as it would not be if it
// were enforced.
func TestShadowLimitOfDeniedRequests(t *testing.T) {
	t.Parallel()
	b := build(t, `
rules:
  - {name: live, match: {path: /t}, params: [id], continue: true, hot: {rate: 10}, limit: {rate: 1/h, burst: 2}}
  - {name: also, match: {path: /t}, params: [id], hot: {rate: 10}, limit: {rate: 1/h, burst: 3, mode: shadow}}
`, gate.Config{})
	b.hot("live?id=1", "also?id=1")
	for i := range 9 {
		if v := b.get("/t?id=1", "1.1.1.1"); v.Allowed != (i < 2) || v.WouldDeny {
			t.Errorf("request %d: %+v", i, v)
		}
	}
	b.hot("also?id=1")
	for i := range 2 { // the third and the fourth that is allowed
		if v := b.get("/t?id=1", "1.1.1.1"); !v.Allowed || v.WouldDeny != (i > 0) {
			t.Errorf("request %d without the other limit: %+v", i, v)
		}
	}
}

// A window in shadow mode denies no client, reports the window that would have denied, and leaves an enforced window
// beside it unchanged. Classes may have windows with a mode of their own.
func TestShadowWindows_DenyNothing(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"instance", "cluster", "cluster, consistency: async"} {
		b := build(t, `
rules: [{name: t, match: {path: /t}, params: [id], hot: {rate: 10}}]
ip:
  fixed: {limit: 2, window: 1s, mode: shadow, scope: `+scope+`}
  sliding: {limit: 5, window: 60s, scope: `+scope+`}
`, gate.Config{})
		for i := range 7 {
			v := b.get("/t?id=1", "1.1.1.1")
			if v.Allowed != (i < 5) || v.WouldDeny != (i > 1 && i < 5) {
				t.Errorf("%s: request %d: %+v", scope, i, v)
			}
			if v.WouldDeny && v.WouldDenyReason != hottype.ReasonIPFixed || !v.WouldDeny && v.WouldDenyReason != 0 {
				t.Errorf("%s: request %d: reason %q", scope, i, v.WouldDenyReason)
			}
		}
		s := b.Stats()
		if s.WouldDeny != 3 || s.WouldDenyIP != 3 || s.Denied[hottype.ReasonIPSliding] != 2 ||
			s.Denied[hottype.ReasonIPFixed] != 0 {
			t.Errorf("%s: %+v", scope, s)
		}
	}
}
