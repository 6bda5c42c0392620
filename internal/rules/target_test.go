package rules

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestOverride_HasOneTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    Override
		want string
	}{
		{Override{Resource: "topic"}, ""}, {Override{Resource: "/status"}, ""}, {Override{Client: "203.0.113.9"}, ""},
		{Override{Client: "2001:db8::"}, ""}, {Override{CIDR: "203.0.113.0/24"}, ""},
		{Override{CIDR: "2001:db8::/32"}, ""},
		{Override{CIDR: "0.0.0.0/0"}, ""}, {Override{Class: "crawler"}, ""},
		{Override{}, "no key, resource, client, cidr or class"},
		{Override{Key: "topic", Client: "203.0.113.9"}, "both key and client"},
		{Override{CIDR: "10.0.0.0/8", Class: "crawler"}, "both cidr and class"},
		{Override{Resource: "topic?id=42"}, "written as key"},
		{Override{Resource: "Topic"}, "neither a rule's name nor a path"},
		{Override{Resource: "/" + strings.Repeat("x", 4096)}, "more than 4096"},
		{Override{Resource: "/\x1b"}, "neither a rule's name nor a path"},
		{Override{Client: "203.0.113.0/24"}, "not an address"}, {Override{Client: "fe80::1%eth0"}, "not an address"},
		{Override{Client: "anna"}, "not an address"},
		{Override{Client: "2001:db8::1"}, `write "2001:db8::"`},
		{Override{Client: "::ffff:203.0.113.9"}, `write "203.0.113.9"`},
		{Override{CIDR: "203.0.113.9/24"}, `write "203.0.113.0/24"`}, {Override{CIDR: "203.0.113.9"}, "not a network"},
		{Override{CIDR: "::ffff:10.0.0.0/104"}, "write the IPv4 network"},
		{Override{CIDR: "2001:db8::1/128"}, "write 2001:db8::/64"},
		{Override{Class: "a b"}, "not the name of a class"},
		{Override{Class: "crawler", Action: ActionCache}, "a key, a pattern or a resource"},
	} {
		if c.o.Action == "" {
			c.o.Action = ActionBlock
		}
		err := c.o.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.o.Target(), err, c.want)
		}
	}
}

// The nearest target wins: a resource is further than every pattern, the longest prefix is
// nearest, and what ended hides nothing behind it.
func TestOverrides_NearestTargetWins(t *testing.T) {
	t.Parallel()
	file := []Override{
		{ID: "all", CIDR: "0.0.0.0/0"}, {ID: "eight", CIDR: "10.0.0.0/8"}, {ID: "sixteen", CIDR: "10.1.0.0/16"},
		{ID: "one", Client: "10.1.2.3"},
		{ID: "v6", CIDR: "2001:db8::/48"}, {ID: "v6-client", Client: "2001:db8:0:1::"},
		{ID: "resource", Resource: "topic"}, {ID: "pattern", Key: "*=1*"}, {ID: "path", Resource: "/status"},
		{ID: "class", Class: "crawler"},
	}
	live := []Override{
		{ID: "live-sixteen", CIDR: "10.1.0.0/16", Until: noon}, {ID: "live-gone", CIDR: "10.1.2.0/24", Until: noon},
		{ID: "live-resource", Resource: "topic", Until: noon}, {ID: "blocked", Resource: "user", Action: ActionBlock},
	}
	o := NewOverrides(file, live)
	name := func(o *Override) string {
		if o == nil {
			return ""
		}
		return o.ID
	}
	for _, c := range []struct {
		addr string
		at   time.Time
		want string
	}{
		{"10.1.2.3", noon, "one"}, {"10.1.2.4", noon.Add(-1), "live-gone"}, {"10.1.2.4", noon, "sixteen"},
		{"10.1.3.1", noon.Add(-1), "live-sixteen"},
		{"10.2.0.1", noon, "eight"}, {"192.0.2.1", noon, "all"}, {"2001:db8:0:1::", noon, "v6-client"},
		{"2001:db8:0:2::", noon, "v6"}, {"2001:db9::", noon, ""},
	} {
		if got := name(o.FindClient(netip.MustParseAddr(c.addr), c.at)); got != c.want {
			t.Errorf("%s: %q, want %q", c.addr, got, c.want)
		}
	}
	for key, want := range map[string]string{
		"topic": "resource", "topic?id=2": "resource", "topic?id=1": "pattern", "topics?id=2": "", "/status": "path",
		"/status/x":        "",
		"topic?!malformed": "resource", "user?!malformed": "blocked", "user?id=7": "blocked",
	} {
		if got := name(o.Find([]byte(key), noon)); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if got := name(o.Find([]byte("topic?id=2"), noon.Add(-1))); got != "live-resource" {
		t.Errorf("a live one of the same resource: %q", got)
	}
	if name(o.FindClass("crawler", noon)) != "class" || o.FindClass("bot", noon) != nil ||
		o.FindClass("", noon) != nil {
		t.Error("classes")
	}
	var none *Overrides
	if none.FindClient(netip.MustParseAddr("10.0.0.1"), noon) != nil || o.FindClient(netip.Addr{}, noon) != nil ||
		none.FindClass("crawler", noon) != nil {
		t.Error("found one among none, or for nobody")
	}
}

// FindClient agrees with a search through all networks.
func TestFindClientAgreesWithASearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var list []Override
		for range rapid.IntRange(0, 12).Draw(t, "overrides") {
			p, _ := netip.AddrFrom4([4]byte{10, byte(rapid.IntRange(0, 3).Draw(t, "b")),
				byte(rapid.IntRange(0, 255).Draw(t, "c")), 0}).
				Prefix(rapid.IntRange(0, 32).Draw(t, "bits"))
			o := Override{ID: "x", CIDR: p.String()}
			if rapid.Bool().Draw(t, "ended") {
				o.Until = noon
			}
			list = append(list, o)
		}
		addr := netip.AddrFrom4([4]byte{10, byte(rapid.IntRange(0, 3).Draw(t, "b")),
			byte(rapid.IntRange(0, 255).Draw(t, "c")), 0})
		want := -1
		for _, o := range list {
			if n := o.Network(); n.Contains(addr) && !o.Expired(noon) {
				want = max(want, n.Bits())
			}
		}
		got := -1
		if o := NewOverrides(nil, list).FindClient(addr, noon); o != nil {
			got = o.Network().Bits()
		}
		if got != want {
			t.Fatalf("%s among %v: a prefix of %d, want %d", addr, list, got, want)
		}
	})
}

// A network of IPv6 is at most one client, a /64, long; one of IPv4 a /32.
func TestTarget_BoundsTheLengthOfNetworks(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"2001:db8:1:2:3::/63": "2001:db8:1:2::/63", "2001:db8:1:2:3::/64": "2001:db8:1:2::/64", "2001:db8::/65": "",
		"203.0.113.9/31": "203.0.113.8/31", "203.0.113.9/32": "203.0.113.9/32", "0.0.0.0/0": "0.0.0.0/0", "::/0": "::/0",
		"::ffff:203.0.113.9/128": "", "203.0.113.9": "",
	} {
		got, err := Target{Kind: TargetCIDR, Value: value}.Canonical()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", value, got, err, want)
		}
	}
}
