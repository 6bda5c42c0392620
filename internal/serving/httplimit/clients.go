package httplimit

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
	"sync/atomic"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/clientaddr"
	"github.com/hotparam/pipeline/internal/netset"
)

// Places where trusted proxies name the client, beside the name of a header that holds one address.
const (
	FromPeer          = "peer"            // nowhere: the peer of the connection is the client
	FromForwarded     = "forwarded"       // the field Forwarded (RFC 7239)
	FromXForwardedFor = "x-forwarded-for" // the field X-Forwarded-For
)

// Clients finds the sender of a request. The peer of the connection is the client, unless it is a trusted proxy: then
// the client is the one that the proxy names, and so on along the chain of trusted proxies. Only statements of trusted
// proxies count, so no client can choose its identity by sending a header.
//
// A peer without an IP address (a unix socket) is on this machine and trusted as a proxy, if there are trusted proxies
// at all. If it names no client, the client is unknown.
//
// Any number of goroutines may use Clients. A nil *Clients trusts no proxy.
type Clients struct{ current atomic.Pointer[sources] }

// sources holds the settings of Clients. It is immutable.
type sources struct {
	trusted netset.Set       // may be nil
	header  string           // "" for FromPeer
	list    *clientaddr.List // the form in which the header lists proxies; nil if it holds one address
}

// NewClients returns Clients that trust the proxies with these addresses. from is the place where they name the client:
// [FromXForwardedFor] (also if empty), [FromForwarded], [FromPeer], or a header such as "X-Real-IP". Both lists are
// read from the right, past trusted addresses.
func NewClients(trusted []netip.Prefix, from string) *Clients {
	c := new(Clients)
	c.Set(trusted, from)
	return c
}

// Set replaces the trusted proxies and the place where they name the client, for requests from now on.
func (c *Clients) Set(trusted []netip.Prefix, from string) {
	s := &sources{trusted: netset.Of(trusted), header: textproto.CanonicalMIMEHeaderKey(from)}
	switch strings.ToLower(from) {
	case FromPeer:
		s.header = ""
	case FromForwarded:
		s.list = &clientaddr.Forwarded
	case FromXForwardedFor, "":
		s.header, s.list = "X-Forwarded-For", &clientaddr.XForwardedFor
	}
	c.current.Store(s)
}

// Of returns the client of a request: an IPv4 address, an IPv6 network of ip.ipv6_prefix bits, a name that a trusted
// proxy states, or unknown.
func (c *Clients) Of(r *http.Request) hottype.Client {
	s := c.currentSources()
	return s.find(peerOf(r), r.Header[s.header]).Client()
}

// Identify sets the client of a request that came from peer. peer is invalid if it has no address. lines returns the
// lines of a header field.
func (c *Clients) Identify(req *hottype.Request, peer netip.Addr, lines func(name string) []string) {
	c.currentSources().identify(req, peer, lines)
}

func (s *sources) identify(req *hottype.Request, peer netip.Addr, lines func(name string) []string) {
	h := clientaddr.Hop{Addr: peer}
	if s.header != "" {
		h = s.find(peer, lines(s.header))
	}
	req.Client, req.Address = h.Client(), h.Addr
}

// Header returns the field in which trusted proxies name the client, or "" if they do not.
func (c *Clients) Header() string { return c.currentSources().header }

// FromProxy reports whether the request came through a trusted proxy, whose X-Forwarded-* fields can be believed.
func (c *Clients) FromProxy(r *http.Request) bool { return c.Trusts(peerOf(r)) }

// Trusts reports whether a peer is a trusted proxy. The address of a unix socket is invalid.
func (c *Clients) Trusts(peer netip.Addr) bool {
	return c.currentSources().isTrusted(clientaddr.Plain(peer))
}

// TrustsAny reports whether there are trusted proxies.
func (c *Clients) TrustsAny() bool { return c.currentSources().trusted != nil }

// noTrustedProxies holds the settings of a nil *Clients.
var noTrustedProxies = new(sources)

func (c *Clients) currentSources() *sources {
	if c == nil {
		return noTrustedProxies
	}
	return c.current.Load()
}

func (s *sources) isTrusted(peer netip.Addr) bool {
	return s.trusted != nil && (!peer.IsValid() || s.trusted.Lookup(peer))
}

func (s *sources) find(peer netip.Addr, lines []string) clientaddr.Hop {
	switch {
	case s.header == "" || len(lines) == 0 || !s.isTrusted(peer):
		return clientaddr.Hop{Addr: peer}
	case s.list != nil:
		return s.list.Walk(s.trusted, peer, lines)
	case len(lines) == 1:
		if a, ok := clientaddr.Parse(lines[0]); ok {
			return clientaddr.Hop{Addr: a}
		}
	}
	return clientaddr.Hop{Addr: peer} // several lines or garbage count for nothing
}

// IdentifyText sets a client in the form that [ParseClient] reads.
func IdentifyText(req *hottype.Request, s string) {
	req.Client = ParseClient(s)
	req.Address, _ = clientaddr.Parse(s)
}

// ParseClient parses a client in the form of other programs: an address, with or without a port, or an opaque name. ""
// is an unknown client.
func ParseClient(s string) hottype.Client {
	if a, ok := clientaddr.Parse(s); ok {
		return hottype.ClientFromAddr(a)
	}
	return hottype.Client{Name: s}
}

// peerOf returns the address of the connected peer, or an invalid one if that is not an IP address.
func peerOf(r *http.Request) netip.Addr {
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return clientaddr.Plain(ap.Addr())
	}
	a, _ := netip.ParseAddr(r.RemoteAddr)
	return clientaddr.Plain(a)
}
