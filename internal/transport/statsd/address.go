package statsd

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// address is where datagrams go to or come from.
type address struct {
	network string // "udp" or "unixgram"
	addr    string // "host:port" or a path
	isName  bool   // the host has to be resolved
}

// parseAddress reads the address of a server: "host:port" or "udp://host:port",
// and "unix:/path" (datagrams).
func parseAddress(s string) (address, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if path == "" {
			return address{}, fmt.Errorf("statsd: address %q has no path", s)
		}
		return address{network: "unixgram", addr: path}, nil
	}
	hostPort := strings.TrimPrefix(s, "udp://")
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || port == "" || strings.Contains(port, "/") {
		return address{}, fmt.Errorf("statsd: address %q is neither host:port nor unix:/path", s)
	}
	_, err = netip.ParseAddr(host)
	return address{network: "udp", addr: hostPort, isName: err != nil && host != ""}, nil
}
