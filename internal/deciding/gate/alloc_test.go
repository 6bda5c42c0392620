//go:build !race

package gate_test

import (
	"context"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/rules"
)

// Not parallel: allocations of other tests would count. Not with the race
// detector: it makes pools forget at random.
func TestDecide_AllocatesNothing(t *testing.T) {
	counter := tally.New(tally.Config{Sink: drain{}})
	for _, tc := range []struct {
		name, yaml, target string
		overrides          []rules.Override
	}{
		{"no rule", benchRules, "/other?id=42", nil},
		{"cold", benchRules, "/topic?id=41&lang=en&page=3", nil},
		{"cold, windows", benchWindows, "/topic?id=41&lang=en&page=3", nil},
		{"hot", benchRules, "/topic?id=7&lang=en&page=3", nil},
		{"denied", benchRules, "/topic?id=42&lang=en&page=3", nil},
		{"denied, windows", benchWindows, "/topic?id=42&lang=en&page=3", nil},
		{"override, cold", benchRules, "/topic?id=41&lang=en&page=3", []rules.Override{
			{ID: "a", Key: "topic?id=41&lang=en&page=3", Action: rules.ActionLimit, Rate: 1, Burst: 2},
			{ID: "b", Key: "x*", Action: rules.ActionBlock},
		}},
		{"blocked", benchRules, "/topic?id=42&lang=en&page=3", []rules.Override{
			{ID: "a", Key: "topic?id=4*", Action: rules.ActionBlock},
		}},
		{"blocked resource", benchRules, "/topic?id=42&lang=en&page=3", []rules.Override{
			{ID: "a", Resource: "topic", Action: rules.ActionBlock},
		}},
		{"limited client", benchWindows, "/topic?id=41&lang=en&page=3", []rules.Override{
			{ID: "a", CIDR: "203.0.113.0/24", Action: rules.ActionLimit, Rate: 1e6, Burst: 1e6},
		}},
		{"tried, others' keys", benchWindows, "/topic?id=41&lang=en&page=3", []rules.Override{
			{ID: "a", Key: "topic?id=40", Action: rules.ActionLimit, Rate: 1, Burst: 2, Mode: hottype.ModeShadow},
			{ID: "b", Client: "203.0.113.8", Action: rules.ActionBlock, Mode: hottype.ModeShadow},
		}},
		{"tried, cold", benchWindows, "/topic?id=41&lang=en&page=3", []rules.Override{
			{ID: "a", Key: "topic?id=41&lang=en&page=3", Action: rules.ActionLimit, Rate: 1, Burst: 2,
				Mode: hottype.ModeShadow},
			{ID: "b", CIDR: "203.0.113.0/24", Action: rules.ActionBlock, Mode: hottype.ModeShadow},
		}},
		{"tried, hot and denied", benchRules, "/topic?id=42&lang=en&page=3", []rules.Override{
			{ID: "a", Key: "topic?id=4*", Action: rules.ActionLimit, Rate: 1, Burst: 2, Mode: hottype.ModeShadow},
		}},
		{"shadowed client", benchWindows, "/topic?id=41&lang=en&page=3", []rules.Override{
			{ID: "a", Client: "203.0.113.9", Action: rules.ActionShadow},
		}},
		{"several values, cold", benchWindows, "/topic?id=41&id=40&lang=en&page=3", nil},
		{"several values, one hot", benchWindows, "/topic?id=7&id=40&lang=en&page=3", nil},
		{"several values, denied", benchWindows, "/topic?id=43&id=42&lang=en&page=3", nil},
		{"fair, not contended", fairBench, "/topic?id=7&lang=en&page=3", nil},
		{"fair, denied", fairBench, "/topic?id=42&lang=en&page=3", nil},
		{"malformed", benchRules, "/topic?id=1&id=2&id=3&id=4&id=5", nil},
	} {
		g := benchGate(t, tc.yaml, counter)
		g.SetOverrides(tc.overrides)
		g.exhaust()
		req := request(tc.target, "203.0.113.9")
		if n := testing.AllocsPerRun(100, func() { g.Decide(context.Background(), g.now, req) }); n != 0 {
			t.Errorf("%s: %v allocations", tc.name, n)
		}
	}
}
