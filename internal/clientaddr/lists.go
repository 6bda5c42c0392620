// Package clientaddr finds the client of a request from the peer of the connection and from the lists in which proxies
// name the peers that asked them: X-Forwarded-For and Forwarded. Both are read from the right, where the nearest proxy
// wrote, past trusted addresses, so that no client can choose its address by sending a header.
//
// Requests and access logs are judged by the same code. The package is pure and never panics; its functions may be used
// by any number of goroutines.
package clientaddr

import (
	"net/netip"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/netset"
)

// List is a header field that lists the proxies on the way of a request. Each of them appended the peer that asked it.
type List struct {
	// longest is the length of the longest element that is read.
	longest int
	// cut cuts the last element off a list. longest bounds the part that it reads.
	cut func(list string, longest int) (rest, last string, more bool)
	// read parses an element.
	read func(element string) (Hop, bool)
}

// Hop is the peer that asked a proxy: an address, or a name that a proxy states instead.
type Hop struct {
	Addr netip.Addr
	Name string
}

// Client returns the hop as a client for rules. Of an IPv6 address it is the network.
func (h Hop) Client() hottype.Client {
	if h.Name != "" {
		return hottype.Client{Name: h.Name}
	}
	return hottype.ClientFromAddr(h.Addr)
}

// maxHops is the number of elements that are read. Only a chain of as many trusted proxies, or a forged one, has more.
const maxHops = 32

// XForwardedFor is the field X-Forwarded-For. Each element is an address, with or without a port.
var XForwardedFor = List{longest: 80, cut: cutLast, read: func(s string) (Hop, bool) {
	a, ok := Parse(s)
	return Hop{Addr: a}, ok
}}

// Walk goes along the list from its end, where the nearest proxy wrote, to the first address that is not trusted. An
// unreadable element ends the walk at the last readable address. A name ends it as the client. The trusted hops bound
// the cost, even if an attacker wrote elements before them.
func (l *List) Walk(trusted netset.Set, peer netip.Addr, lines []string) Hop {
	at, n := Hop{Addr: peer}, 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; n++ {
			var element string
			rest, element, more = l.cut(rest, l.longest)
			if n >= maxHops || len(element) > l.longest {
				return at
			}
			if element = strings.Trim(element, " \t"); element == "" {
				continue // an empty element, which lists may have
			}
			next, ok := l.read(element)
			if !ok {
				return at
			}
			if at = next; at.Name != "" || !trusted.Lookup(at.Addr) {
				return at
			}
		}
	}
	return at
}

// cutLast cuts at the last comma. It looks back no further than an element may reach. It returns a longer element cut
// short, but still too long.
func cutLast(list string, longest int) (rest, last string, more bool) {
	from := max(0, len(list)-longest-1)
	i := strings.LastIndexByte(list[from:], ',')
	if i < 0 {
		return "", list[from:], false
	}
	return list[:from+i], list[from+i+1:], true
}

// Forwarded is the field Forwarded of RFC 7239:
//
//	Forwarded: for=192.0.2.43, for="[2001:db8:cafe::17]:4711";proto=https;by=_edge, for=_hidden
//
// An obfuscated name ("_hidden") is the client's name. "unknown" names no client, so the walk ends before it, as it
// does at an element without for.
var Forwarded = List{longest: 256, cut: cutLastQuoted, read: readForwarded}

// cutLastQuoted is like cutLast for elements that hold quoted strings. It reads from the right, where trusted proxies
// wrote, so a quote that a client leaves open can only spoil the elements before it.
func cutLastQuoted(list string, longest int) (rest, last string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch c := list[i]; {
		case len(list)-i > longest+1:
			return "", list[i:], false
		case c == '"' && !endsInEscape(list[:i]):
			quoted = !quoted
		case c == ',' && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return "", list, false
}

// endsInEscape reports whether a backslash at the end of s escapes the next byte.
func endsInEscape(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// readForwarded parses the for of an element. It returns false if there are two, or the element is malformed.
func readForwarded(element string) (at Hop, ok bool) {
	for rest, more := element, true; more; {
		var name, value string
		var good bool
		if name, value, rest, more, good = forwardedPair(rest); !good {
			return Hop{}, false
		}
		if !strings.EqualFold(name, "for") {
			continue
		}
		if ok {
			return Hop{}, false
		}
		if at, ok = readNode(value); !ok {
			return Hop{}, false
		}
	}
	return at, ok
}

// forwardedPair parses name=value up to a semicolon or the end.
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

// readNode parses the node of a for: an address, with brackets around IPv6, or an obfuscated name, each with or without
// a port.
func readNode(s string) (Hop, bool) {
	if strings.HasPrefix(s, "_") {
		name, _, _ := strings.Cut(s, ":")
		return Hop{Name: name}, len(name) > 1 && isNode(name)
	}
	if a, ok := Parse(s); ok {
		return Hop{Addr: a}, true
	}
	// A port may be obfuscated too.
	i := strings.LastIndex(s, ":_")
	if i < 0 {
		return Hop{}, false
	}
	a, ok := Parse(s[:i])
	return Hop{Addr: a}, ok
}

// isNode reports whether s consists of characters of nodes. Some proxies do not quote colons and brackets.
func isNode(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("._-:[]", c) < 0 {
			return false
		}
	}
	return s != ""
}
