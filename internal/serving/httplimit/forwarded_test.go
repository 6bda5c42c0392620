package httplimit_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

func TestClients_ReadForwarded(t *testing.T) {
	t.Parallel()
	c := httplimit.NewClients(prefixes("10.0.0.0/8"), "Forwarded")
	for _, tc := range []struct {
		lines []string
		want  string
	}{
		{nil, "10.0.0.1"},
		{[]string{"for=192.0.2.43"}, "192.0.2.43"},
		{[]string{"for=192.0.2.43:47011"}, "192.0.2.43"},
		{[]string{`For="192.0.2.43"`}, "192.0.2.43"},
		{[]string{`for="192.0.2.43:47011"`}, "192.0.2.43"},
		{[]string{`for="192.0.2.43:_port"`}, "192.0.2.43"},
		{[]string{`for="192.0.\2.43"`}, "192.0.2.43"},
		{[]string{`for="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::"},
		{[]string{`for="[2001:db8:cafe::17]"`}, "2001:db8:cafe::"},
		{[]string{`for="[2001:db8:cafe::17]:_p"`}, "2001:db8:cafe::"},
		{[]string{`for=[2001:db8:cafe::17]`}, "2001:db8:cafe::"}, // some proxies do not quote
		{[]string{"proto=https;for=192.0.2.43;by=10.0.0.9"}, "192.0.2.43"},
		{[]string{`by="a,b;for=6.6.6.6" ; for=192.0.2.43`}, "192.0.2.43"},
		{[]string{`by="a\",b";for=192.0.2.43`}, "192.0.2.43"},
		{[]string{"for=6.6.6.6, for=192.0.2.43;proto=http, for=10.0.0.7"}, "192.0.2.43"},
		{[]string{"for=6.6.6.6", "for=192.0.2.43", "for=10.0.0.7"}, "192.0.2.43"},
		{[]string{"for=6.6.6.6, for=_hidden, for=10.0.0.7"}, "_hidden"},
		{[]string{`for="_hidden:_port"`}, "_hidden"},
		// A hop that cannot be read is not believed, nor is any hop before it.
		{[]string{"for=6.6.6.6, for=unknown, for=10.0.0.7"}, "10.0.0.7"},
		{[]string{"for=6.6.6.6, proto=https"}, "10.0.0.1"},
		{[]string{"for=6.6.6.6;for=7.7.7.7"}, "10.0.0.1"},
		{[]string{"for=_"}, "10.0.0.1"},
		{[]string{"for="}, "10.0.0.1"},
		{[]string{"for"}, "10.0.0.1"},
		{[]string{`for="6.6.6.6`}, "10.0.0.1"},
		{[]string{`for="6.6.6.6" x`}, "10.0.0.1"},
		{[]string{"for=6.6.6.6 7"}, "10.0.0.1"},
		{[]string{"f r=6.6.6.6"}, "10.0.0.1"},
		{[]string{"6.6.6.6"}, "10.0.0.1"},
		{[]string{"for=6.6.6.6;by=" + strings.Repeat("x", 300)}, "10.0.0.1"},
		// A quote that a client leaves open spoils only the client's own part.
		{[]string{`for="6.6.6.6, for=192.0.2.43`}, "192.0.2.43"},
		{[]string{`for="6.6.6.6\, for="192.0.2.43:1"`}, "192.0.2.43"},
		{[]string{`by="`, "for=192.0.2.43"}, "192.0.2.43"},
	} {
		r := request("10.0.0.1:999", http.Header{"Forwarded": tc.lines, "X-Forwarded-For": {"6.6.6.6"}})
		if got := c.Of(r).String(); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.lines, got, tc.want)
		}
	}
}

func TestClients_UsePeer(t *testing.T) {
	t.Parallel()
	c := httplimit.NewClients(prefixes("10.0.0.0/8"), "peer")
	r := request("10.0.0.1:999", http.Header{
		"Peer": {"6.6.6.6"}, "": {"6.6.6.6"}, "Forwarded": {"for=6.6.6.6"}, "X-Forwarded-For": {"6.6.6.6"},
	})
	if got := c.Of(r).String(); got != "10.0.0.1" || c.Header() != "" {
		t.Errorf("client %s by %q", got, c.Header())
	}
	if !c.FromProxy(r) {
		t.Error("a trusted proxy is one, whoever names the client")
	}
}

// identifiedClient is the client of a request from peer.
func identifiedClient(c *httplimit.Clients, peer string, header http.Header) hottype.Client {
	var r hottype.Request
	c.Identify(&r, netip.MustParseAddr(peer), header.Values)
	return r.Client
}

// FuzzForged writes any text before the text of a trusted proxy. The client stays the same.
func FuzzForged(f *testing.F) {
	for _, s := range []string{"", `for="`, `for="a\`, "for=10.0.0.1", "6.6.6.6", `"`, ",,", "unknown", `for=_x;by="`,
		"\x00\xff"} {
		f.Add(s, s)
	}
	trusted := prefixes("10.0.0.0/8", "fd00::/8")
	f.Fuzz(func(t *testing.T, line, same string) {
		for source, written := range map[string][2]string{
			"Forwarded":       {"for=203.0.113.9", `by="x,y";for="[fd00::7]:1"`},
			"X-Forwarded-For": {"203.0.113.9", "10.0.0.7"},
		} {
			c := httplimit.NewClients(trusted, strings.ToLower(source))
			lines := []string{line, same + ", " + written[0] + ", " + written[1]}
			if got := identifiedClient(c, "10.0.0.1", http.Header{source: lines}); got.String() != "203.0.113.9" {
				t.Fatalf("%s %q: %s", source, lines, got)
			}
			if got := identifiedClient(c, "203.0.113.8", http.Header{source: lines}); got.String() != "203.0.113.8" {
				t.Fatalf("%s %q from a stranger: %s", source, lines, got)
			}
			identifiedClient(c, "10.0.0.1", http.Header{source: {line}}) // does not panic
		}
	})
}
