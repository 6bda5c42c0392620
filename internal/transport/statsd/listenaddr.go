package statsd

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// transports are the forms of an address to listen on besides "host:port".
var transports = []struct{ prefix, network string }{
	{"udp://", "udp"},
	{"tcp://", "tcp"},
	{"unixgram:", "unixgram"},
	{"unixstream:", "unix"},
	{"unix:", "unixgram"},
}

// parseListen reads an address to listen on: "host:port" and "udp://host:port"
// (datagrams), "tcp://host:port", "unix:/path" (datagrams) and
// "unixstream:/path".
func parseListen(s string) (address, error) {
	for _, t := range transports {
		rest, ok := strings.CutPrefix(s, t.prefix)
		if !ok {
			continue
		}
		if !strings.HasPrefix(t.network, "unix") {
			a, err := parseAddress(rest)
			if err != nil || a.network != "udp" {
				return address{}, fmt.Errorf("statsd: address %q is not %shost:port", s, t.prefix)
			}
			a.network = t.network
			return a, nil
		}
		if path := strings.TrimPrefix(rest, "//"); path != "" {
			return address{network: t.network, addr: path}, nil
		}
		return address{}, fmt.Errorf("statsd: address %q has no path", s)
	}
	a, err := parseAddress(s)
	if err != nil {
		return address{},
			fmt.Errorf(
				"statsd: address %q is none of host:port, udp://host:port, tcp://host:port, unix:/path, unixstream:/path", s)
	}
	return a, nil
}

// reaches reports whether datagrams that this machine sends to a arrive at a
// socket that listens on at, as far as the two addresses tell.
func (a address) reaches(at net.Addr) bool {
	if a.network == "unixgram" {
		return at.Network() == a.network && at.String() == a.addr
	}
	udp, ok := at.(*net.UDPAddr)
	host, port, err := net.SplitHostPort(a.addr)
	if !ok || err != nil || port != strconv.Itoa(udp.Port) {
		return false
	}
	ip := net.ParseIP(host)
	local := host == "localhost" || host == "" || ip.IsLoopback() || ip.IsUnspecified()
	return udp.IP.Equal(ip) || local && (udp.IP.IsUnspecified() || udp.IP.IsLoopback())
}
