package origins_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

func TestNetworkAndSender_TagsDistinguishOrigins(t *testing.T) {
	t.Parallel()
	network := func(s string) uint32 { c := hottype.ParseClient(s); return origins.Network(&c) }
	for a, b := range map[string]string{
		"203.0.113.1":    "203.0.113.250",
		"2001:db8:1::1":  "2001:db8:1:ffff::1",
		"::ffff:1.2.3.4": "1.2.3.9",
		"name":           "name",
	} {
		if network(a) != network(b) || network(a) == 0 || origins.IsSender(network(a)) {
			t.Errorf("%s and %s are not one network", a, b)
		}
	}
	seen := map[uint32]string{0: "unknown"}
	for _, s := range []string{"203.0.113.1", "203.0.112.1", "0.0.0.1", "2001:db8:1::1", "2001:db8:2::1", "a", "b"} {
		if other, ok := seen[network(s)]; ok {
			t.Errorf("%s and %s are one network", s, other)
		}
		seen[network(s)] = s
	}
	sender := func(s string) uint32 { return origins.SenderAddr(netip.MustParseAddr(s)) }
	if sender("203.0.113.1") == sender("203.0.113.2") || sender("2001:db8::1") != sender("2001:db8::2") ||
		sender("203.0.113.1") != sender("::ffff:203.0.113.1") || !origins.IsSender(sender("203.0.113.1")) ||
		origins.SenderAddr(netip.Addr{}) != 0 || origins.Sender("") != 0 || !origins.IsSender(origins.Sender("a")) {
		t.Error("tags of senders")
	}
}

// The requests of others for a key are at most the number without the origin's votes, and at least half of it.
func TestOriginAdd_KeepsMajority(t *testing.T) {
	t.Parallel()
	for mine := range int64(20) {
		for others := range int64(20) {
			var o hottype.Origin
			for i := range max(mine, others) {
				if i < mine {
					o.Add(7, 3)
				}
				if i < others {
					o.Add(uint32(100+i%3), 3)
				}
			}
			o.Add(0, 1000)
			left := 3*(mine+others) - o.N
			if o.Tag == 7 && (left < 3*others || left > 6*others) || mine > others && o.Tag != 7 {
				t.Errorf("%d and %d others: %+v", mine, others, o)
			}
		}
	}
}

// If the sender of a count does not name the network, the heaviest clients do.
func TestOf_DerivesNetworkFromSketch(t *testing.T) {
	t.Parallel()
	c := hottype.Count{
		N:       100,
		Clients: new(hottype.ClientSketch),
		Origin:  hottype.Origin{Tag: origins.Sender("s"), N: 100},
	}
	one, two := hottype.ParseClient("203.0.113.1"), hottype.ParseClient("203.0.113.2")
	clientsketch.Add(c.Clients, one, 40)
	clientsketch.Add(c.Clients, two, 40)
	clientsketch.Add(c.Clients, hottype.ParseClient("10.0.0.1"), 20)
	network, sender := origins.Of(&c)
	if network.Tag != origins.Network(&one) || network.N != 60 || sender != c.Origin {
		t.Errorf("%+v %+v", network, sender)
	}
	c.Origin = hottype.Origin{Tag: 5, N: 9}
	if network, sender := origins.Of(&c); network != c.Origin || sender.N != 0 {
		t.Errorf("%+v %+v", network, sender)
	}
}

func claim(weight float64, network, sender string, others int64) origins.Claim {
	c := origins.Claim{Weight: weight}
	mine := int64(weight) - others
	if network != "" {
		client := hottype.Client{Name: network}
		c.Network = hottype.Origin{Tag: origins.Network(&client), N: mine}
	}
	c.Sender.Add(origins.Sender(sender), mine)
	return c
}

// ranked returns the names of the claims that have a place, with their number.
func ranked(claims []origins.Claim, names []string, places int) map[string]int {
	for i := range claims {
		claims[i].Index = i
	}
	origins.Rank(claims, places)
	got := make(map[string]int)
	for _, c := range claims[:min(places, len(claims))] {
		got[names[c.Index]]++
	}
	return got
}

func TestRank_BoundsPartOfEachOrigin(t *testing.T) {
	t.Parallel()
	type some struct {
		name   string
		n      int
		claim  origins.Claim
		places int
	}
	for name, c := range map[string]struct {
		places int
		claims []some
	}{
		"without origins by weight": {2, []some{
			{"light", 3, claim(1, "", "", 0), 0}, {"heavy", 2, claim(2, "", "", 0), 2},
		}},
		"a network fills what no other wants": {16, []some{
			{"one", 100, claim(1000, "one", "", 0), 14}, {"others", 2, claim(1, "", "", 0), 2}}},
		"a network has its part": {16, []some{
			{"one", 100, claim(1000, "one", "", 0), 2}, {"others", 100, claim(1, "", "", 0), 14}}},
		"a key of others that it asks for too": {16, []some{
			{"one", 100, claim(1000, "one", "", 0), 2}, {"piled", 1, claim(900, "one", "", 10), 1},
			{"others", 100, claim(9, "", "", 0), 13}}},
		"two senders share": {16, []some{
			{"one", 100, claim(1000, "", "one", 0), 8}, {"two", 100, claim(1, "", "two", 0), 8}}},
		"one sender, and a network in it": {16, []some{
			{"one", 100, claim(1000, "one", "s", 0), 2}, {"others", 100, claim(1, "", "s", 0), 14}}},
	} {
		var claims []origins.Claim
		var names []string
		for _, s := range c.claims {
			for range s.n {
				claims, names = append(claims, s.claim), append(names, s.name)
			}
		}
		got := ranked(claims, names, c.places)
		for _, s := range c.claims {
			if got[s.name] != s.places {
				t.Errorf("%s: %s has %d places, want %d", name, s.name, got[s.name], s.places)
			}
		}
	}
}

func TestLine_JudgesNewClaims(t *testing.T) {
	t.Parallel()
	var claims []origins.Claim
	for i := range 100 {
		claims = append(claims, claim(float64(1000-i), "one", "", 0))
	}
	origins.Rank(claims, 16)
	l := origins.LineOf(claims, 16)
	for name, c := range map[string]struct {
		claim origins.Claim
		below bool
	}{
		"lighter of the same":  {claim(900, "one", "", 0), true},
		"heavier of the same":  {claim(2000, "one", "", 0), false},
		"light of others":      {claim(1, "", "", 0), false},
		"light of a third":     {claim(1, "two", "", 0), false},
		"of the same and more": {claim(900, "one", "", 1), false},
	} {
		if l.Below(&c.claim) != c.below || !l.Spare() {
			t.Errorf("%s: below is %v", name, !c.below)
		}
	}
	var none origins.Line
	if c := claim(1, "", "", 0); none.Below(&c) || fmt.Sprint(origins.LineOf(claims, 100)) != fmt.Sprint(none) {
		t.Error("without a line nothing is below it")
	}
}
