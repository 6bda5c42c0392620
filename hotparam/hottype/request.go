package hottype

import (
	"net/netip"
	"slices"
	"strings"
)

// Request holds the parts of a request that a rule can see. It holds no body, because the pipeline reads no bodies. The
// zero value is a request for "" by no client.
type Request struct {
	Method string
	Host   string
	// Target is the request target byte for byte as received: a path with an optional query, or the absolute form that
	// proxies receive.
	Target string
	Client Client
	// Address is the client's full address if it is known; of an IPv6 address Client holds only the network. See
	// ClientAddr.
	Address netip.Addr
	// Header may be nil; http.Header satisfies it.
	Header Header
	// FromProxy is true if a trusted proxy or a gateway has sent the request, so that its fields are not the client's
	// own word. Only then a class by a field counts in the priority of a limit, and client_key names a client.
	FromProxy bool
	// Cost is the amount that the request takes from its limits; 0 means 1.
	Cost int64
	// ParamsUnknown is true if the query is not known yet, as when a stream opens. The request is judged, but it is not
	// counted under rules that read the query, so that streams do not make the key without parameters hot.
	ParamsUnknown bool
}

// ClientAddr returns the address of the client: Address, or the address of Client if Address is not set.
func (r *Request) ClientAddr() netip.Addr {
	if r.Address.IsValid() {
		return r.Address.Unmap()
	}
	return r.Client.Addr
}

// Header holds the header fields of a request.
type Header interface {
	// Get returns the first line of a field, or "" if there is none.
	Get(name string) string
	// Values returns all lines of a field, because upstreams differ in the line that they read. Callers must not change
	// it.
	Values(name string) []string
}

// HeaderLine returns the only line of a field, or "" if there is none. It reports whether there are several: then one
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
// field is sound: a name or a bracketed address, with an optional port of digits. Upstreams read other fields in
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

// SplitTarget returns the path and the raw query of the target, both byte for byte. Scheme and authority of the
// absolute form are dropped; an empty path is "/".
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

// Client is the requester: an address (of one host, or the /64 that an IPv6 host owns), or an opaque name if a log has
// no address. It is comparable and allocation-free as a map key. The zero Client is unknown.
type Client struct {
	Addr netip.Addr
	Name string
}

// IsZero reports whether the client is unknown.
func (c Client) IsZero() bool { return !c.Addr.IsValid() && c.Name == "" }

// String returns the address or the name, or "-" for an unknown client.
func (c Client) String() string {
	switch {
	case c.Addr.IsValid():
		return c.Addr.String()
	case c.Name != "":
		return c.Name
	}
	return "-"
}

// ClientFromAddr returns the client for an address: IPv4 (also when mapped into IPv6) by /32, IPv6 by /64, because one
// subscriber owns a /64 and can send from all of it. The zone is dropped.
func ClientFromAddr(a netip.Addr) Client {
	if a.Is4() { // unchanged, as most are: every request comes through here
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

// ParseClient reads an address; other text becomes an opaque name.
func ParseClient(s string) Client {
	if a, err := netip.ParseAddr(s); err == nil {
		return ClientFromAddr(a)
	}
	return Client{Name: s}
}

// Statuses is a list of ranges of HTTP statuses.
type Statuses []StatusRange

// StatusRange is the range of statuses from From to To, both included.
type StatusRange struct{ From, To int }

// Contains reports whether a status is in one of the ranges.
func (s Statuses) Contains(status int) bool {
	return slices.ContainsFunc(s, func(r StatusRange) bool { return r.From <= status && status <= r.To })
}

// InvalidTargetReason returns the reason why no server should accept a request target, or "" for a target of RFC 9112:
// a path with an optional query, the absolute form, or "*". Upstreams read a faulty target in different ways (one cuts
// it at a "#", another reads "http:/topic" as "/topic"), so a limit in front of them cannot know. CONNECT has targets
// of its own form.
func InvalidTargetReason(method, target string) string {
	if len(target) > 8 && target[0] == '/' && isPlainTarget(target) {
		return "" // nearly all targets, without a call
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

// faultyByte returns the index of the first byte that a target must not contain unescaped, or -1 if there is none.
func faultyByte(target string) int {
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c == 0x7f || c == '#' || c == '\\' {
			return i
		}
	}
	return -1
}

// isPlainTarget reports whether no byte of a target of at least eight is faulty or beyond ASCII, eight bytes at a time,
// because every request comes through here. Subtraction from a byte sets its high bit if the byte is smaller, and
// exclusive-or makes equal bytes zero.
func isPlainTarget(target string) bool {
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
