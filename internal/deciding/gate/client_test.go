package gate_test

import (
	"fmt"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// clientRecorder writes down which clients are counted.
type clientRecorder map[hottype.Client]int64

func (c clientRecorder) AddFrom(_ []byte, _, n int64, client hottype.Client) { c[client] += n }

func (c clientRecorder) AddCost(key []byte, second, cost, _ int64, client hottype.Client) {
	c.AddFrom(key, second, cost, client)
}

// The owner of an IPv6 prefix has 65,000 networks to send from. They are one client, for the windows and for the
// Counter, and another prefix is another client.
func TestOneIPv6PrefixIsOneClient(t *testing.T) {
	t.Parallel()
	counted := clientRecorder{}
	b := build(t, `
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}}]
ip: {ipv6_prefix: 48, fixed: {limit: 5, window: 1s}, exempt: ["2001:db8:2:7::/64"]}
`, gate.Config{Counter: counted})
	allowed := 0
	for i := range 65_000 {
		if b.get("/topic?id=1", fmt.Sprintf("2001:db8:1:%x::%x", i, i)).Allowed {
			allowed++
		}
	}
	if allowed != 5 {
		t.Errorf("%d of 65,000 addresses passed a window of 5", allowed)
	}
	if len(counted) != 1 || counted[hottype.ParseClient("2001:db8:1::")] != 65_000 {
		t.Errorf("counted as %d clients", len(counted))
	}
	for _, other := range []string{"2001:db8:2::1", "192.0.2.1", "somebody"} {
		if !b.get("/topic?id=1", other).Allowed {
			t.Errorf("%s pays for its neighbour", other)
		}
	}
	// An exempt network within the prefix of other clients is exempt, and the others are not.
	for range 9 {
		if v := b.get("/topic?id=1", "2001:db8:2:7::9"); v.Rule != gate.RuleExempt {
			t.Fatalf("%+v", v)
		}
	}
	b.Count(b.now, request("/topic?id=1", "2001:db8:1:ffff::1"))
	if counted[hottype.ParseClient("2001:db8:1::")] != 65_001 {
		t.Error("Count counts another client than Decide")
	}
}
