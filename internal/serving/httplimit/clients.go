package httplimit

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
	"sync/atomic"

	"github.com/gaissmai/bart"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	forwardedFor = "X-Forwarded-For"
	// maxHops is how many elements of X-Forwarded-For are looked at. Only a
	// chain of that many trusted proxies, or someone who forges one, has more.
	maxHops = 32
	// maxHop is the longest element that can be an address with a port, and
	// some white space.
	maxHop = 80
)

// Clients finds out who sent a request. Who connects is the client, unless a
// trusted proxy does: then it is whom the proxy names, and so on along the
// chain of trusted proxies. Only what a trusted proxy wrote is believed, so
// nobody can choose who to be by sending a header.
//
// A peer without an IP address (a unix socket) is on this machine and trusted
// as a proxy, if there are trusted proxies at all; when it names nobody, the
// client is unknown.
//
// It may be used by many goroutines. A nil *Clients trusts nobody.
type Clients struct {
	header  string
	trusted atomic.Pointer[bart.Lite] // nil: nobody
}

// NewClients trusts the proxies with these addresses. header is the field they
// name the client in: "X-Forwarded-For" (also when empty) is read as a list
// from the right, past trusted addresses; any other, such as "X-Real-IP", holds
// one address. The field "Forwarded" is not understood.
func NewClients(trusted []netip.Prefix, header string) *Clients {
	c := &Clients{header: textproto.CanonicalMIMEHeaderKey(header)}
	if header == "" {
		c.header = forwardedFor
	}
	c.SetTrusted(trusted)
	return c
}

// SetTrusted replaces the trusted proxies, for requests from now on.
func (c *Clients) SetTrusted(list []netip.Prefix) {
	if len(list) == 0 {
		c.trusted.Store(nil)
		return
	}
	t := new(bart.Lite)
	for _, p := range list {
		if addr, bits := p.Addr(), p.Bits(); addr.Is4In6() && bits >= 96 {
			p = netip.PrefixFrom(addr.Unmap(), bits-96)
		}
		if p.IsValid() {
			t.Insert(p.Masked())
		}
	}
	c.trusted.Store(t)
}

// Of is the client of a request: an IPv4 address, an IPv6 /64, or unknown.
func (c *Clients) Of(r *http.Request) hottype.Client {
	if c == nil {
		return client(peerOf(r))
	}
	return c.Named(peerOf(r), r.Header[c.header])
}

// Header is the field in which trusted proxies name the client, "" where nobody is trusted.
func (c *Clients) Header() string {
	if c == nil {
		return ""
	}
	return c.header
}

// Named is the client of a request that came from peer, an invalid address where that has none,
// with these lines of the field [Clients.Header].
func (c *Clients) Named(peer netip.Addr, lines []string) hottype.Client {
	t, trusted := c.trusts(peer)
	if !trusted {
		return client(peer)
	}
	switch {
	case len(lines) == 0:
		return client(peer)
	case c.header == forwardedFor:
		return client(walk(t, peer, lines))
	case len(lines) == 1:
		if a, ok := ParseAddress(lines[0]); ok {
			return client(a)
		}
	}
	return client(peer) // several lines or garbage: believe none of it
}

// FromProxy reports whether the request came through a trusted proxy, whose
// X-Forwarded-* fields can be believed.
func (c *Clients) FromProxy(r *http.Request) bool {
	_, ok := c.trusts(peerOf(r))
	return ok
}

func (c *Clients) trusts(peer netip.Addr) (*bart.Lite, bool) {
	if c == nil {
		return nil, false
	}
	t := c.trusted.Load()
	return t, t != nil && (!peer.IsValid() || t.Lookup(peer))
}

// ParseClient reads a client as others write it: an address, with or without a
// port, else an opaque name. "" is an unknown client.
func ParseClient(s string) hottype.Client {
	if a, ok := ParseAddress(s); ok {
		return client(a)
	}
	return hottype.Client{Name: s}
}

func client(a netip.Addr) hottype.Client {
	if !a.Is6() { // IPv4, which is its own client, or nothing, which is nobody
		return hottype.Client{Addr: a}
	}
	return hottype.ClientFrom(a)
}

// peerOf is who is connected, invalid where that is not an IP address.
func peerOf(r *http.Request) netip.Addr {
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return plain(ap.Addr())
	}
	a, err := netip.ParseAddr(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return plain(a)
}

// plain is an address as prefixes match it: IPv4 unmapped, no zone.
func plain(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	return a.Unmap().WithZone("")
}

// walk goes along X-Forwarded-For from its end, where the nearest proxy wrote,
// to the first address that is not trusted. Whatever cannot be read ends the
// walk at the last address that could. The cost is bounded by the trusted hops,
// whatever an attacker wrote before them.
func walk(trusted *bart.Lite, at netip.Addr, lines []string) netip.Addr {
	hops := 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; hops++ {
			var hop string
			rest, hop, more = lastElement(rest)
			if hops >= maxHops || len(hop) > maxHop {
				return at
			}
			if hop = strings.Trim(hop, " \t"); hop == "" {
				continue // an empty element, which lists may have
			}
			a, ok := ParseAddress(hop)
			if !ok {
				return at
			}
			if at = a; !trusted.Lookup(a) {
				return at
			}
		}
	}
	return at
}

// lastElement cuts the last element off a list. It looks no further than an
// element may reach; a longer one comes back cut short but still too long.
func lastElement(list string) (rest, last string, more bool) {
	from := max(0, len(list)-maxHop-1)
	i := strings.LastIndexByte(list[from:], ',')
	if i < 0 {
		return "", list[from:], false
	}
	return list[:from+i], list[from+i+1:], true
}

// ParseAddress reads an address as proxies write it: alone, with a port, in
// brackets, or both.
func ParseAddress(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if a, err := netip.ParseAddr(s); err == nil {
		return plain(a), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return plain(ap.Addr()), true
	}
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		a, err := netip.ParseAddr(s[1 : len(s)-1])
		return plain(a), err == nil && a.Is6()
	}
	return netip.Addr{}, false
}
