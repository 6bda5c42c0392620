package gate_test

import (
	"context"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// known are verified addresses.
type known map[string]bool

func (k known) Verified(_ time.Time, addr netip.Addr, domains string) bool {
	return k[addr.String()+" "+domains]
}

// A client that only claims to be a crawler is an ordinary client, or in the next class that matches it; DNS looks up
// the whole address, even if only a prefix of it identifies the client.
func TestUnverifiedCrawlersAreOrdinaryClients(t *testing.T) {
	t.Parallel()
	b := build(t, `
rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}}]
ip: {fixed: {limit: 5, window: 1s}}
classes:
  - {name: googlebot, match: {header: User-Agent, pattern: Googlebot}, verify: [googlebot.com, google.com], ip: {fixed: {limit: 50, window: 1s}}}
  - {name: tool, match: {header: User-Agent, pattern: curl}, ip: {fixed: {limit: 1, window: 1s}}}
`, gate.Config{Verifier: known{"66.249.66.1 googlebot.com google.com": true, "2001:4860:4801:10::7 googlebot.com google.com": true}})
	for _, tc := range []struct {
		address, agent, class string
		limit                 int64
	}{
		{"66.249.66.1", "Googlebot/2.1", "googlebot", 50},
		{"2001:4860:4801:10::7", "Googlebot/2.1", "googlebot", 50},
		{"2001:4860:4801:10::8", "Googlebot/2.1", "", 5},
		{"192.0.2.1", "Googlebot/2.1", "", 5},
		{"192.0.2.1", "Googlebot/2.1 by curl", "tool", 1},
		{"66.249.66.1", "Mozilla", "", 5},
	} {
		addr := netip.MustParseAddr(tc.address)
		v := b.Decide(context.Background(), b.now, &hottype.Request{
			Method: "GET", Target: "/topic?id=1", Client: hottype.ClientFromAddr(addr), Address: addr,
			Header: http.Header{"User-Agent": {tc.agent}},
		})
		if v.Class != tc.class || v.Limit != tc.limit {
			t.Errorf("%s as %q: class %q, limit %d, want %q, %d", tc.address, tc.agent, v.Class, v.Limit, tc.class,
				tc.limit)
		}
		b.now = b.now.Add(time.Minute)
	}
}
