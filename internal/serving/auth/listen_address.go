package auth

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// UnixPrefix begins the address of a unix socket; its path follows.
const UnixPrefix = "unix:"

// CheckListen refuses an address that other machines can reach unless callers
// have to show who they are (guarded). addr is "host:port", or "unix:" and a path.
// It looks nothing up: of names only localhost and those below it are loopback.
func CheckListen(addr string, guarded bool) error {
	if guarded || strings.HasPrefix(addr, UnixPrefix) {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("auth: listen address %q: %w", addr, err)
	}
	if IsLoopback(host) {
		return nil
	}
	return fmt.Errorf("auth: listen address %q can be reached from other machines and there is no token: "+
		"set a token, or listen on 127.0.0.1 or unix:/path", addr)
}

// IsLoopback reports whether a host can only mean this machine. A name under
// .localhost is loopback to every browser.
func IsLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
