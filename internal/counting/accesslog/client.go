package accesslog

import (
	"net/netip"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/clientaddr"
	"github.com/hotparam/pipeline/internal/netset"
)

// internalNetworks are the networks whose hosts are trusted as proxies in every log: this machine and private networks,
// which clients on the internet cannot send from.
var internalNetworks = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("fc00::/7"),
}

// internalTrust is the set of the internal networks. It is never changed.
var internalTrust = newTrust(nil)

// newTrust returns the set of the internal networks and of the given ones.
func newTrust(proxies []netip.Prefix) netset.Set {
	return netset.Of(append(internalNetworks[:len(internalNetworks):len(internalNetworks)], proxies...))
}

// TrustProxies sets the networks of proxies, beside loopback and private networks, whose entries of X-Forwarded-For are
// believed from now on.
func (p *Parser) TrustProxies(networks []netip.Prefix) { p.trusted = newTrust(networks) }

// names is the kind of names that a field with a client may hold in place of an address.
type names int

const (
	noNames   names = iota
	hostNames       // of a server that resolves addresses; they have a dot
	anyNames        // of a program that chooses its own names of clients
)

// origin holds the parts of a line that name its client, as they are written. "" and "-" stand for an absent part.
type origin struct {
	// client is the field that the format has for the client: the address of the peer, or a list of addresses as
	// proxies wrote it.
	client string
	// forwarded is the X-Forwarded-For that the line has beside the client, which counts if the client is trusted.
	forwarded string
	hasPort   bool // client always ends with a port
	names     names
}

// setClient sets the client of the entry. A list is read from the right, in the same way as for a live request.
func (p *Parser) setClient(e *Entry, o *origin) error {
	list := emptyIfDash(o.forwarded)
	var peer netip.Addr
	switch who := o.client; {
	case strings.IndexByte(who, ',') >= 0:
		list = who // the line does not name the peer that wrote the list
	case who == "" || who == "-" || strings.HasPrefix(who, "unix:"):
	default:
		var ok bool
		if peer, ok = parseAddress(who, o.hasPort); !ok {
			return e.setName(who, o.names)
		}
		if list == "" || !p.trusted.Lookup(peer) {
			e.Request.Client = hottype.ClientFromAddr(peer)
			return nil
		}
	}
	if list == "" {
		return nil
	}
	e.Request.Client = clientaddr.XForwardedFor.Walk(p.trusted, peer, []string{list}).Client()
	if e.Request.Client.IsZero() && list == o.client {
		return &Error{"client must be a list of addresses, of which the last is readable", list}
	}
	return nil
}

// setName sets a client that is not an address.
func (e *Entry) setName(who string, allowed names) error {
	if allowed == anyNames || allowed == hostNames && isHostName(who) {
		e.Request.Client = hottype.Client{Name: who}
		return nil
	}
	reason := "client must be an address"
	if allowed == hostNames {
		reason = "client must be an address, or a name with a dot"
	}
	return &Error{reason, who}
}

// parseAddress parses an address with or without a port. An IPv6 address may have a port without brackets around the
// address; it is recognized if the address alone is not one, or if there always is a port.
func parseAddress(s string, hasPort bool) (netip.Addr, bool) {
	i := strings.LastIndexByte(s, ':')
	bare := i > 0 && s[i-1] != ']' && parseNumber(s[i+1:]) >= 0 && strings.IndexByte(s[:i], ':') >= 0
	if bare && hasPort {
		s = s[:i]
	}
	a, ok := clientaddr.Parse(s)
	if !ok && bare {
		a, ok = clientaddr.Parse(s[:min(i, len(s))])
	}
	return a, ok
}

// isHostName reports whether s is the name of a host: letters, digits, "-", "_" and "*" in parts between dots, and a
// letter in the last part, so that neither a number nor a version is one.
func isHostName(s string) bool {
	dot := strings.LastIndexByte(s, '.')
	if dot <= 0 || len(s) > 253 || strings.Contains(s, "..") {
		return false
	}
	letter := false
	for i := range len(s) {
		c := s[i]
		alpha := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !alpha && !isDigit(c) && strings.IndexByte("-_.*", c) < 0 {
			return false
		}
		letter = letter || i > dot && alpha
	}
	return letter
}

// isAddress reports whether s is an address, with or without a port, or "-".
func isAddress(s string) bool {
	_, ok := parseAddress(s, false)
	return ok || s == "-"
}

// isAddressList reports whether s is a list of addresses, or one address without a port: a virtual host before the
// client may be an address as well, and has a port.
func isAddressList(s string) bool {
	if strings.IndexByte(s, ',') >= 0 {
		return true
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}
