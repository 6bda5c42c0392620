package clientaddr

import (
	"net/netip"
	"strings"
)

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
