package gate_test

import (
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// A limit in shadow mode denies nobody, whichever store has it; a request that one
// of them would have denied is charged to none of them.
func TestShadowLimits(t *testing.T) {
	t.Parallel()
	b := build(t, `
rules:
  - {name: here, match: {path: /t}, params: [id], continue: true, hot: {rate: 10}, limit: {rate: 1/h, burst: 3, scope: instance, mode: shadow}}
  - {name: all, match: {path: /t}, params: [id], hot: {rate: 10}, limit: {rate: 1/h, burst: 1, scope: cluster, mode: shadow}}
`, gate.Config{})
	b.hot("here?id=1", "all?id=1")
	for i := range 6 { // the second to the last are one too many for all
		if v := b.get("/t?id=1", "1.1.1.1"); !v.Allowed || v.Shadowed != (i > 0) {
			t.Errorf("request %d: %+v", i, v)
		}
	}
	b.hot("here?id=1") // now it is asked for alone, and has 2 of 3
	for i := range 4 {
		if v := b.get("/t?id=1", "1.1.1.1"); !v.Allowed || v.Shadowed != (i > 1) || v.Remaining != int64(max(0, 1-i)) {
			t.Errorf("request %d of the one that is kept here: %+v", i, v)
		}
	}
}

// A window in shadow mode denies no client, says which window would have, and leaves
// an enforced one beside it as it is. Classes may have windows of their own mode.
func TestShadowWindows(t *testing.T) {
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
			if v.Allowed != (i < 5) || v.Shadowed != (i > 1 && i < 5) {
				t.Errorf("%s: request %d: %+v", scope, i, v)
			}
			if v.Shadowed && v.ShadowReason != hottype.ReasonIPFixed || !v.Shadowed && v.ShadowReason != 0 {
				t.Errorf("%s: request %d: reason %q", scope, i, v.ShadowReason)
			}
		}
		s := b.Stats()
		if s.Shadowed != 3 || s.ShadowedIP != 3 || s.Denied[hottype.ReasonIPSliding] != 2 ||
			s.Denied[hottype.ReasonIPFixed] != 0 {
			t.Errorf("%s: %+v", scope, s)
		}
	}
}
