package rules

import (
	"net/netip"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// All addresses of one subscriber are one client, for any length of the subscriber's network.
func TestClientOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		prefix   int
		in, want string
	}{
		{0, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
		{64, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
		{63, "2001:db8:1:3:3:4:5:6", "2001:db8:1:2::"},
		{60, "2001:db8:1:12:3:4:5:6", "2001:db8:1:10::"},
		{56, "2001:db8:1:1ff::6", "2001:db8:1:100::"},
		{48, "2001:db8:1:ffff::6", "2001:db8:1::"},
		{48, "192.0.2.77", "192.0.2.77"},
		{48, "::ffff:192.0.2.77", "192.0.2.77"},
		{48, "somebody", "somebody"},
	} {
		ip := IPLimits{IPv6Prefix: tc.prefix}
		if got := ip.ClientOf(hottype.ParseClient(tc.in)).String(); got != tc.want {
			t.Errorf("/%d of %s: %s, want %s", tc.prefix, tc.in, got, tc.want)
		}
	}
	if got := (&IPLimits{IPv6Prefix: 48}).ClientOf(hottype.Client{Addr: netip.Addr{}}); !got.IsZero() {
		t.Errorf("nobody is %s", got)
	}
}
