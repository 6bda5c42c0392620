package hottype

import (
	"net/netip"
	"slices"
	"strings"
)

// Request is what a rule can see of a request. It holds no body: nothing in
// the pipeline reads one. The zero value is a request for "" by no client.
type Request struct {
	Method string
	Host   string
	// Target is the request target byte for byte as received: a path with an
	// optional query, or the absolute form that proxies get.
	Target string
	Client Client
	// Address is the client's address in full where it is known: of IPv6 Client holds the
	// network alone. Crawlers are verified by it; where it is not set, by that of Client.
	Address netip.Addr
	// Header may be nil; http.Header satisfies it.
	Header Header
	// Cost is what the request takes from its limits; 0 means 1.
	Cost int64
	// ParamsUnknown says that the query is not known yet, as when a stream opens. The request is judged, but it is not
	// counted under rules that read the query, so that streams do not make the key without parameters hot.
	ParamsUnknown bool
}

// Header has the header fields of a request.
type Header interface {
	// Get returns the first line of a field, "" if there is none.
	Get(name string) string
	// Values returns all lines of a field, because upstreams differ in which of several they read. It is not changed.
	Values(name string) []string
}

// HeaderLine returns the only line of a field, "" if there is none. It reports whether there are several: then one
// upstream reads the first, another the last, and a third joins them, so none of them is the value.
func HeaderLine(h Header, name string) (text string, several bool) {
	if h == nil {
		return "", false
	}
	if text = h.Get(name); len(h.Values(name)) > 1 {
		return "", true
	}
	return text, false
}

// HostName returns the name in a Host field, without port and final dots, as it is written. It reports whether the
// field is sound: a name or a bracketed address, and at most a port of digits. Upstreams read other fields in
// different ways.
func HostName(field string) (name string, sound bool) {
	end := 0
	if strings.HasPrefix(field, "[") {
		end = strings.IndexByte(field, ']') + 1
		sound = end > 0 && strings.Trim(field[1:end-1], "0123456789abcdefABCDEF:.") == ""
	} else {
		for end < len(field) && hostByte(field[end]) {
			end++
		}
		sound = true
	}
	name, port := strings.TrimRight(field[:end], "."), field[end:]
	return name, sound && (port == "" || port[0] == ':' && strings.Trim(port[1:], "0123456789") == "")
}

func hostByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_'
}

// SplitTarget returns the path and the raw query of the target, both byte for byte.
// Scheme and authority of the absolute form are dropped; an empty path is "/".
func (r *Request) SplitTarget() (path, rawQuery string) {
	path, rawQuery, _ = strings.Cut(r.Target, "?")
	if len(path) > 0 && path[0] != '/' {
		if i := strings.Index(path, "://"); i > 0 { // without a scheme, frameworks read it as a path
			path = path[i+3:]
			if j := strings.IndexByte(path, '/'); j >= 0 {
				path = path[j:]
			} else {
				path = ""
			}
		}
	}
	if path == "" {
		path = "/"
	}
	return path, rawQuery
}

// Client is the requester: an address (of one host, or the /64 that an IPv6 host
// owns), or where a log gives no address, an opaque name. It is comparable and
// allocation-free as a map key. The zero Client is unknown.
type Client struct {
	Addr netip.Addr
	Name string
}

// IsZero reports whether the client is unknown.
func (c Client) IsZero() bool { return !c.Addr.IsValid() && c.Name == "" }

// String is the address or the name, "-" for an unknown client.
func (c Client) String() string {
	switch {
	case c.Addr.IsValid():
		return c.Addr.String()
	case c.Name != "":
		return c.Name
	}
	return "-"
}

// ClientFromAddr gives the client for an address: IPv4 (also when mapped into
// IPv6) by /32, IPv6 by /64, because one subscriber owns a /64 and can send
// from all of it. The zone is dropped.
func ClientFromAddr(a netip.Addr) Client {
	if a.Is4() { // as it is, and most are: every request comes through here
		return Client{Addr: a}
	}
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			a = p.Addr()
		}
	}
	return Client{Addr: a}
}

// ParseClient reads an address; what is not one becomes an opaque name.
func ParseClient(s string) Client {
	if a, err := netip.ParseAddr(s); err == nil {
		return ClientFromAddr(a)
	}
	return Client{Name: s}
}

// Statuses are ranges of HTTP statuses.
type Statuses []StatusRange

// StatusRange is all statuses from From to To, both included.
type StatusRange struct{ From, To int }

// Contains reports whether a status is one of them.
func (s Statuses) Contains(status int) bool {
	return slices.ContainsFunc(s, func(r StatusRange) bool { return r.From <= status && status <= r.To })
}

// InvalidTargetReason says why no server should take a request target, "" where it is one
// of RFC 9112: a path with an optional query, the absolute form, or "*". Upstreams
// disagree about what a faulty target asks for (one cuts it at a "#", another
// reads "http:/topic" as "/topic"), so that a limit in front of them cannot know.
// CONNECT has targets of its own form.
func InvalidTargetReason(method, target string) string {
	if len(target) > 8 && target[0] == '/' && plain(target) {
		return "" // nearly all, without a call
	}
	return targetFault(method, target)
}

func targetFault(method, target string) string {
	if at := faultyByte(target); at >= 0 {
		switch target[at] {
		case '#':
			return "a raw \"#\": a fragment is never sent"
		case '\\':
			return "a raw backslash"
		}
		return "a raw space or control character"
	}
	if target == "" || target[0] == '/' || method == "CONNECT" {
		return ""
	}
	if i := strings.IndexAny(target, ":/?"); i > 0 && target[i] == ':' && !strings.HasPrefix(target[i:], "://") {
		return "a scheme without \"//\""
	}
	return ""
}

// faultyByte is the index of the first byte that no target has as it is, -1 if there is none.
func faultyByte(target string) int {
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c == 0x7f || c == '#' || c == '\\' {
			return i
		}
	}
	return -1
}

// plain reports whether no byte of a target of at least eight is faulty or beyond
// ASCII, eight bytes at a time: every request comes through here. To subtract from a
// byte sets its high bit where it is smaller, exclusive-or makes equal bytes zero.
func plain(target string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	found := uint64(0)
	for i := 0; ; i = min(i+8, len(target)-8) {
		s := target[i : i+8]
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		found |= x | (x - ones*0x21) | ((x ^ ones*'#') - ones) | ((x ^ ones*'\\') - ones) | (x + ones)
		if i == len(target)-8 {
			return found&high == 0
		}
	}
}
