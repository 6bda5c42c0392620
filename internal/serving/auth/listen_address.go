package auth

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// UnixPrefix begins the address of a unix socket. The path of the socket follows.
const UnixPrefix = "unix:"

// CheckListen rejects an address that other machines can reach, unless callers have to authenticate (guarded). addr is
// "host:port", or "unix:" and a path. It resolves no names: of names only localhost and names below it are loopback.
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

// IsLoopbackHost is like IsLoopback for the host of a request, which may have a port. A listener without credentials
// calls it against DNS rebinding, where a page of another site makes its own name point at loopback. If credentials are
// required that page lacks them, so every name is fine.
func IsLoopbackHost(host string) bool { return IsLoopback(withoutPort(host)) }

func withoutPort(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// OwnSite protects a listener on a loopback address that requires no credentials. It rejects requests that a page of
// another site makes a browser send with 403, and requests by another name than this machine's with 421.
func OwnSite(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	return rejectForeign(next, IsLoopbackHost, func(r *http.Request) bool { return cross.Check(r) != nil })
}

// gatewayHost is the Host that the files of deploy/ send to the sidecar.
const gatewayHost = "hotparam"

// GatewaysOnly is like OwnSite for a listener that only gateways call, by a loopback name or the name in the shipped
// files. It rejects all requests that a page made a browser send, including reads, because no gateway sends Origin or
// Sec-Fetch-Site.
func GatewaysOnly(next http.Handler) http.Handler {
	named := func(host string) bool { return IsLoopbackHost(host) || withoutPort(host) == gatewayHost }
	return rejectForeign(next, named, func(r *http.Request) bool {
		return len(r.Header["Origin"]) > 0 || slices.ContainsFunc(r.Header["Sec-Fetch-Site"],
			func(site string) bool { return site != "none" && site != "same-origin" })
	})
}

// rejectForeign returns a handler that rejects requests by other names than this listener's, and requests that another
// site caused.
func rejectForeign(next http.Handler, isNamed func(host string) bool, isForeign func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isNamed(r.Host) {
			httplimit.WriteProblem(w, http.StatusMisdirectedRequest,
				"Call this API by a loopback address, or set a token.")
			return
		}
		if isForeign(r) {
			httplimit.WriteProblem(w, http.StatusForbidden, "A request that another site asked for is rejected.")
			return
		}
		next.ServeHTTP(w, r)
	})
}
