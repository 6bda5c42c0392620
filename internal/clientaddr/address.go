package clientaddr

import (
	"net/netip"
	"strings"

	"github.com/hotparam/pipeline/internal/netset"
)

// NewTrust returns the set of the addresses of trusted proxies, or nil if there are no networks.
func NewTrust(networks []netip.Prefix) netset.Set {
	var trusted netset.Set
	for _, p := range networks {
		if addr, bits := p.Addr(), p.Bits(); addr.Is4In6() && bits >= 96 {
			p = netip.PrefixFrom(addr.Unmap(), bits-96)
		}
		if trusted == nil {
			trusted = netset.New()
		}
		if p.IsValid() {
			trusted.Insert(p.Masked())
		}
	}
	return trusted
}

// Plain returns an address in the form that prefixes match: IPv4 unmapped, without zone.
func Plain(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	return a.Unmap().WithZone("")
}

// Parse parses an address in the form of proxies: alone, with a port, in brackets, or both.
func Parse(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if a, err := netip.ParseAddr(s); err == nil {
		return Plain(a), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return Plain(ap.Addr()), true
	}
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		a, err := netip.ParseAddr(s[1 : len(s)-1])
		return Plain(a), err == nil && a.Is6()
	}
	return netip.Addr{}, false
}
