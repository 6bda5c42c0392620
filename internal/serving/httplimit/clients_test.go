package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func request(remote string, header http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr, r.Header = remote, header
	return r
}

func TestClients_FindClientBehindProxies(t *testing.T) {
	t.Parallel()
	c := httplimit.NewClients(prefixes("10.0.0.0/8", "fd00::/8", "::ffff:192.0.2.0/120"), "")
	for _, tc := range []struct {
		remote string
		lines  []string
		want   string
	}{
		{"198.51.100.7:999", nil, "198.51.100.7"},
		{"198.51.100.7:999", []string{"1.1.1.1"}, "198.51.100.7"}, // not a proxy: not believed
		{"10.0.0.1:999", nil, "10.0.0.1"},
		{"10.0.0.1:999", []string{"1.1.1.1"}, "1.1.1.1"},
		{"10.0.0.1:999", []string{"6.6.6.6, 1.1.1.1"}, "1.1.1.1"}, // the client's own forgery
		{"10.0.0.1:999", []string{"6.6.6.6, 1.1.1.1 , 10.0.0.2,10.0.0.3"}, "1.1.1.1"},
		{"10.0.0.1:999", []string{"6.6.6.6", "1.1.1.1", "10.0.0.2"}, "1.1.1.1"},
		{"10.0.0.1:999", []string{"10.0.0.9, 10.0.0.2"}, "10.0.0.9"}, // trusted all the way
		{"10.0.0.1:999", []string{"1.1.1.1, rubbish, 10.0.0.2"}, "10.0.0.2"},
		{"10.0.0.1:999", []string{"1.1.1.1, ,, "}, "1.1.1.1"},
		{"10.0.0.1:999", []string{""}, "10.0.0.1"},
		{"10.0.0.1:999", []string{"1.1.1.1:4711"}, "1.1.1.1"},
		{"10.0.0.1:999", []string{"[2001:db8::1]:4711"}, "2001:db8::"},
		{"10.0.0.1:999", []string{"[2001:db8::1]"}, "2001:db8::"},
		{"10.0.0.1:999", []string{"[1.1.1.1]"}, "10.0.0.1"},
		{"10.0.0.1:999", []string{"2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::"},
		{"10.0.0.1:999", []string{"::ffff:1.1.1.1"}, "1.1.1.1"},
		{"10.0.0.1:999", []string{"unknown"}, "10.0.0.1"},
		{"192.0.2.9:1", []string{"1.1.1.1"}, "1.1.1.1"}, // trusted by a mapped prefix
		{"[fd00::5]:1", []string{"1.1.1.1"}, "1.1.1.1"},
		{"[fd00::5%eth0]:1", []string{"1.1.1.1"}, "1.1.1.1"},
		{"[2001:db8::5]:1", []string{"1.1.1.1"}, "2001:db8::"},
		{"@", []string{"1.1.1.1"}, "1.1.1.1"}, // a unix socket is local
		{"@", nil, "-"},
		{"", nil, "-"},
	} {
		if got := c.Of(request(tc.remote, http.Header{"X-Forwarded-For": tc.lines})).String(); got != tc.want {
			t.Errorf("%s %q: %s, want %s", tc.remote, tc.lines, got, tc.want)
		}
	}
}

func TestClients_ReadOtherField(t *testing.T) {
	t.Parallel()
	c := httplimit.NewClients(prefixes("10.0.0.0/8"), "x-real-ip")
	for _, tc := range []struct {
		remote string
		lines  []string
		want   string
	}{
		{"10.0.0.1:1", []string{"1.1.1.1"}, "1.1.1.1"},
		{"10.0.0.1:1", []string{"1.1.1.1", "2.2.2.2"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"1.1.1.1, 2.2.2.2"}, "10.0.0.1"},
		{"9.9.9.9:1", []string{"1.1.1.1"}, "9.9.9.9"},
	} {
		if got := c.Of(request(tc.remote, http.Header{"X-Real-Ip": tc.lines})).String(); got != tc.want {
			t.Errorf("%s %q: %s, want %s", tc.remote, tc.lines, got, tc.want)
		}
	}
}

func TestClients_TrustNobodyByDefault(t *testing.T) {
	t.Parallel()
	header := http.Header{"X-Forwarded-For": {"1.1.1.1"}}
	var none *httplimit.Clients
	for _, c := range []*httplimit.Clients{none, httplimit.NewClients(nil, "")} {
		if got := c.Of(request("127.0.0.1:1", header)).String(); got != "127.0.0.1" {
			t.Errorf("client %s", got)
		}
		if got := c.Of(request("@", header)).String(); got != "-" {
			t.Errorf("client %s by a unix socket", got)
		}
	}
}

// A megabyte of header costs no more than the hops that are trusted.
func TestClients_BoundForgedChain(t *testing.T) {
	t.Parallel()
	c := httplimit.NewClients(prefixes("10.0.0.0/8"), "")
	for name, lines := range map[string][]string{
		"trusted hops":    {strings.Repeat("10.0.0.7,", 100_000)},
		"trusted lines":   strings.Fields(strings.Repeat("10.0.0.7 ", 100_000)),
		"one huge hop":    {strings.Repeat("7", 1_000_000)},
		"empty hops":      {strings.Repeat(",", 1_000_000)},
		"huge after good": {strings.Repeat("7", 1_000_000) + ", 10.0.0.7"},
	} {
		r := request("10.0.0.7:1", http.Header{"X-Forwarded-For": lines})
		if got := c.Of(r).String(); got != "10.0.0.7" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Whatever is written before the last untrusted address does not matter.
func TestClients_IgnoreForgedHops(t *testing.T) {
	t.Parallel()
	c := httplimit.NewClients(prefixes("10.0.0.0/8"), "")
	rapid.Check(t, func(t *rapid.T) {
		forged := rapid.SliceOf(rapid.StringMatching(`[0-9a-f.:, \[\]]{0,40}`)).Draw(t, "forged")
		proxies := rapid.SliceOfN(rapid.StringMatching(`10\.[0-9]\.[0-9]\.[0-9]`), 0, 5).Draw(t, "proxies")
		lines := append(forged, strings.Join(append([]string{"203.0.113.9"}, proxies...), ", "))
		if got := c.Of(request("10.1.1.1:1", http.Header{"X-Forwarded-For": lines})).String(); got != "203.0.113.9" {
			t.Fatalf("%q: %s", lines, got)
		}
	})
}

func TestClients_SetChangesTrust(t *testing.T) {
	t.Parallel()
	c := httplimit.NewClients(nil, "")
	r := request("10.0.0.1:1", http.Header{"X-Forwarded-For": {"1.1.1.1"}})
	before := c.FromProxy(r)
	c.Set(prefixes("10.0.0.1/32"), "")
	if before || !c.FromProxy(r) || c.Of(r).String() != "1.1.1.1" {
		t.Error("trust did not change")
	}
}

// No field of a client makes its fields count as fields of a proxy, also if the service names the client.
func TestHTTPGate_BelievesFieldsOfTrustedPeersAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		peer := rapid.SampledFrom([]string{"10.1.1.1:1", "[fd00::5]:1", "203.0.113.9:1", "[2001:db8::5]:1", "@"})
		trusted := rapid.SampledFrom([][]netip.Prefix{nil, prefixes("10.0.0.0/8", "fd00::/8")}).Draw(t, "trusted")
		header := http.Header{}
		for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Forwarded-Proto", "X-User"} {
			if rapid.Bool().Draw(t, name) {
				value := rapid.SampledFrom([]string{"10.1.1.1", "for=10.1.1.1", "https"})
				header[name] = []string{value.Draw(t, "value")}
			}
		}
		r := request(peer.Draw(t, "peer"), header)
		want := trusted != nil && !strings.HasPrefix(r.RemoteAddr, "203") && !strings.HasPrefix(r.RemoteAddr, "[2001")
		asked, believed := 0, 0
		decide := func(req *hottype.Request) hottype.Verdict {
			if asked++; req.FromProxy {
				believed++
			}
			return hottype.Verdict{Allowed: true}
		}
		from := rapid.SampledFrom([]string{"", "peer", "X-Real-IP"}).Draw(t, "from")
		g := httplimit.NewHTTPGate(httplimit.HTTPGateConfig{Gate: gateFunc{decide: decide, panics: new(int)},
			Clients: httplimit.NewClients(trusted, from)})
		g.Decide(r, hottype.Client{}, 0)
		g.Decide(r, hottype.Client{Name: "10.1.1.1"}, 0)
		g.DecideOpening(r, hottype.Client{}, 0)
		g.DecideForCache(r)
		g.ChargeKeys(r, nil)
		if asked != 5 || believed != map[bool]int{true: 5}[want] {
			t.Fatalf("%s %v: %d of %d believed", r.RemoteAddr, header, believed, asked)
		}
	})
}

// The address of a client that the service names is still known, because passes and classes of networks ask for it.
func TestHTTPGate_KnowsTheAddressOfNamedClients(t *testing.T) {
	t.Parallel()
	var got hottype.Request
	g := httplimit.NewHTTPGate(httplimit.HTTPGateConfig{Clients: httplimit.NewClients(prefixes("10.0.0.0/8"), ""),
		Gate: gateFunc{decide: func(req *hottype.Request) hottype.Verdict {
			got = *req
			return hottype.Verdict{Allowed: true}
		}}})
	r := request("10.1.1.1:1", http.Header{"X-Forwarded-For": {"2001:db8::7"}})
	for _, name := range []string{"", "anna"} {
		want := map[string]string{"": "2001:db8::", "anna": "anna"}[name]
		g.Decide(r, hottype.Client{Name: name}, 0)
		if got.Client.String() != want || got.Address.String() != "2001:db8::7" || !got.FromProxy {
			t.Errorf("%q: %+v", name, got)
		}
	}
}

func TestParseClient(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "-", "1.2.3.4": "1.2.3.4", "1.2.3.4:80": "1.2.3.4", "[2001:db8::1]:80": "2001:db8::", "user-7": "user-7",
		"1.2.3": "1.2.3",
	} {
		if got := httplimit.ParseClient(in).String(); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func BenchmarkClientThroughTwoProxies(b *testing.B) {
	c := httplimit.NewClients(prefixes("10.0.0.0/8"), "")
	r := request("10.0.0.1:1234", http.Header{"X-Forwarded-For": {"203.0.113.9, 10.0.0.2"}})
	b.ReportAllocs()
	for b.Loop() {
		c.Of(r)
	}
}
