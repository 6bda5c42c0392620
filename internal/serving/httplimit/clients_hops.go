package httplimit

import (
	"net/netip"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/netset"
)

// hops is a header field that lists the proxies on the way of a request, each of which
// appended who it was asked by.
type hops struct {
	// longest is the longest element that is looked at.
	longest int
	// cut cuts the last element off a list; longest bounds what it looks at.
	cut func(list string, longest int) (rest, last string, more bool)
	// read reads an element.
	read func(element string) (hop, bool)
}

// hop is who asked a proxy: an address, or a name that a proxy gives instead.
type hop struct {
	addr netip.Addr
	name string
}

// client is who it is to rules: of IPv6 the network.
func (h hop) client() hottype.Client {
	if h.name != "" {
		return hottype.Client{Name: h.name}
	}
	return hottype.ClientFromAddr(h.addr)
}

// maxHops is how many elements are looked at. Only a chain of that many trusted
// proxies, or someone who forges one, has more.
const maxHops = 32

// xForwardedFor is an address with or without a port for each element.
var xForwardedFor = hops{longest: 80, cut: cutLast, read: func(s string) (hop, bool) {
	a, ok := ParseAddress(s)
	return hop{addr: a}, ok
}}

// walk goes along the list from its end, where the nearest proxy wrote, to the first
// address that is not trusted. Whatever cannot be read ends the walk at the last address
// that could, and a name ends it as the client. The cost is bounded by the trusted hops,
// whatever an attacker wrote before them.
func (h *hops) walk(trusted netset.Set, peer netip.Addr, lines []string) hop {
	at, n := hop{addr: peer}, 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; n++ {
			var element string
			rest, element, more = h.cut(rest, h.longest)
			if n >= maxHops || len(element) > h.longest {
				return at
			}
			if element = strings.Trim(element, " \t"); element == "" {
				continue // an empty element, which lists may have
			}
			next, ok := h.read(element)
			if !ok {
				return at
			}
			if at = next; at.name != "" || !trusted.Lookup(at.addr) {
				return at
			}
		}
	}
	return at
}

// cutLast cuts at the last comma. It looks no further than an element may reach; a
// longer one comes back cut short but still too long.
func cutLast(list string, longest int) (rest, last string, more bool) {
	from := max(0, len(list)-longest-1)
	i := strings.LastIndexByte(list[from:], ',')
	if i < 0 {
		return "", list[from:], false
	}
	return list[:from+i], list[from+i+1:], true
}

// forwarded is the field Forwarded of RFC 7239:
//
//	Forwarded: for=192.0.2.43, for="[2001:db8:cafe::17]:4711";proto=https;by=_edge, for=_hidden
//
// An obfuscated name ("_hidden") is the client's name. "unknown" names no client, so that
// the walk ends before it, as it does at an element without for.
var forwarded = hops{longest: 256, cut: cutLastQuoted, read: readForwarded}

// cutLastQuoted is cutLast for elements that hold quoted strings. It reads from the right,
// where trusted proxies wrote: a quote that a client leaves open can only spoil what stands
// before it.
func cutLastQuoted(list string, longest int) (rest, last string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch c := list[i]; {
		case len(list)-i > longest+1:
			return "", list[i:], false
		case c == '"' && !escaped(list[:i]):
			quoted = !quoted
		case c == ',' && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return "", list, false
}

// escaped reports whether what follows s is escaped by a backslash at its end.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// readForwarded reads the for of an element. Two of them, or an element that is not well
// formed, name no client.
func readForwarded(element string) (at hop, ok bool) {
	for rest, more := element, true; more; {
		var name, value string
		var good bool
		if name, value, rest, more, good = forwardedPair(rest); !good {
			return hop{}, false
		}
		if !strings.EqualFold(name, "for") {
			continue
		}
		if ok {
			return hop{}, false
		}
		if at, ok = readNode(value); !ok {
			return hop{}, false
		}
	}
	return at, ok
}

// forwardedPair reads name=value up to a semicolon or the end.
func forwardedPair(s string) (name, value, rest string, more, ok bool) {
	name, s, ok = strings.Cut(s, "=")
	if name = strings.Trim(name, " \t"); !ok || !httpguts.ValidHeaderFieldName(name) {
		return "", "", "", false, false
	}
	if !strings.HasPrefix(s, `"`) {
		value, rest, more = strings.Cut(s, ";")
		value = strings.TrimRight(value, " \t")
		return name, value, rest, more, httpguts.ValidHeaderFieldName(value) || isNode(value)
	}
	var b []byte
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			after := strings.Trim(s[i+1:], " \t")
			rest, more = strings.CutPrefix(after, ";")
			return name, string(b), rest, more, more || after == ""
		case c == '\\' && i+1 < len(s):
			i++
			b = append(b, s[i])
		default:
			b = append(b, c)
		}
	}
	return "", "", "", false, false // the quote is left open
}

// readNode reads the node of a for: an address, with brackets around IPv6, or an
// obfuscated name, each with or without a port.
func readNode(s string) (hop, bool) {
	if strings.HasPrefix(s, "_") {
		name, _, _ := strings.Cut(s, ":")
		return hop{name: name}, len(name) > 1 && isNode(name)
	}
	if a, ok := ParseAddress(s); ok {
		return hop{addr: a}, true
	}
	// A port may be obfuscated too.
	i := strings.LastIndex(s, ":_")
	if i < 0 {
		return hop{}, false
	}
	a, ok := ParseAddress(s[:i])
	return hop{addr: a}, ok
}

// isNode reports whether s is made of what nodes are made of. Some proxies do not quote
// colons and brackets.
func isNode(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("._-:[]", c) < 0 {
			return false
		}
	}
	return s != ""
}
