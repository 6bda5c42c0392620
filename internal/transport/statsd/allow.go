package statsd

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
)

// ParseAllow reads networks ("10.0.0.0/8", "fd00::/8") and single addresses.
func ParseAllow(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
			continue
		}
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return nil, fmt.Errorf("statsd: %q is neither a network such as 10.0.0.0/8 nor an address", s)
		}
		out = append(out, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
	}
	return out, nil
}

// senders decides whose datagrams and connections are read. All sockets of a
// Listener share it; it is safe for concurrent use.
type senders struct {
	allow   []netip.Prefix // empty: everybody
	refused atomic.Uint64
	bad     *rejectLog
}

// all reports whether nobody is refused, so that nobody has to ask who sends.
func (s *senders) all() bool { return len(s.allow) == 0 }

// admits reports whether an address may send, and counts one that may not. A
// sender without an address is one at a unix socket, which its file guards.
func (s *senders) admits(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if s.all() || !a.IsValid() || slices.ContainsFunc(s.allow, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return true
	}
	s.refused.Add(1)
	s.bad.sender(a.String())
	return false
}

// peer is the address at the other end of a connection; the zero Addr at a unix
// socket.
func peer(conn net.Conn) netip.Addr {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}
