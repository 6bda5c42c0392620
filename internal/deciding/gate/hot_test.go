package gate_test

import (
	"testing"

	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// Gateways switch their caches by Verdict.Hot, so it is true for every decision about a hot key, and only then.
func TestVerdict_HotIsTrueForHotKeys(t *testing.T) {
	t.Parallel()
	b := build(t, `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 1}}
ip: {fixed: {limit: 3, window: 1m}}
overrides:
  - {key: "topic?id=2", action: limit, rate: 5}
  - {key: "topic?id=3", action: block}
  - {key: "topic?id=4", action: exempt}
`, gate.Config{})
	b.hot("topic?id=1", "topic?id=3", "topic?id=4")
	for _, c := range []struct {
		target, client string
		hot, allowed   bool
	}{
		{"/topic?id=1", "10.0.0.1", true, true},
		{"/topic?id=1", "10.0.0.2", true, false},
		{"/topic?id=3", "10.0.0.2", true, false},
		{"/topic?id=4", "10.0.0.2", true, true},
		{"/topic?id=2", "10.0.0.3", false, true}, // limited by an override, but not hot
		{"/topic?id=5", "10.0.0.3", false, true},
		{"/other", "10.0.0.3", false, true},
		{"/topic?id=1", "10.0.0.3", true, false}, // by its per-IP window
	} {
		if v := b.get(c.target, c.client); v.Hot != c.hot || v.Allowed != c.allowed {
			t.Errorf("%s: %+v", c.target, v)
		}
	}
}
