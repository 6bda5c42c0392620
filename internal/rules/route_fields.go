package rules

import (
	"net/textproto"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// matchesMethod compares methods as net/http does: no method means GET, and GET matches HEAD too. It ignores case,
// because gunicorn 20.1 passes "POSt" to Django and Flask as POST.
func (rt *route) matchesMethod(method string) bool {
	for _, m := range rt.methods {
		if m == method || strings.EqualFold(m, method) ||
			m == "GET" && (method == "" || strings.EqualFold(method, "HEAD")) {
			return true
		}
	}
	return false
}

// matchesHost compares hosts without the port, and without final dots. A host that is not sound may be any host.
func (rt *route) matchesHost(host string) bool {
	name, sound := hottype.HostName(host)
	for _, h := range rt.hosts {
		if len(h) == len(name) && strings.EqualFold(h, name) {
			return true
		}
	}
	return !sound
}

// readsFaultyHost reports whether the rule depends on the host, and the host is not sound. The request is then
// malformed for the rule, and a later rule may count it too.
func (rt *route) readsFaultyHost(req *hottype.Request) bool {
	if !rt.host {
		return false
	}
	_, sound := hottype.HostName(req.Host)
	return !sound
}

// readHeaders stores the values of headers after the values of the path. A header that is absent or empty adds no pair.
// It returns false if upstreams read a header in different ways: it has several lines, whose values some upstreams
// join, or another of its names, or a value that is not sound.
func (rt *route) readHeaders(req *hottype.Request, values []canon.Value) bool {
	if len(rt.headers) == 0 {
		return true
	}
	if req.Header != nil && slices.ContainsFunc(rt.spelled, func(name string) bool {
		return len(req.Header.Values(name)) > 0
	}) {
		return false
	}
	values = values[len(values)-len(rt.headers):]
	for i, name := range rt.headers {
		var text string
		if name == "Host" {
			text, _ = hottype.HostName(req.Host)
			text = strings.ToLower(text)
		} else {
			var several bool
			if text, several = hottype.HeaderLine(req.Header, name); several || !isSoundValue(text) {
				return false
			}
		}
		values[i] = canon.Value{Text: text, Present: text != ""}
	}
	return true
}

// maxSpelledHyphens bounds the spellings of a name: its further hyphens have one spelling.
const maxSpelledHyphens = 3

// spellHeader returns the other names of a header for upstreams that make a variable of a name, as CGI does: names with
// "_" or, for PHP, "." in the place of a "-".
func spellHeader(name string) []string {
	parts := strings.SplitN(name, "-", maxSpelledHyphens+1)
	spellings := parts[:1]
	for _, part := range parts[1:] {
		var longer []string
		for _, s := range spellings {
			longer = append(longer, s+"-"+part, s+"_"+part, s+"."+part)
		}
		spellings = longer
	}
	for i, s := range spellings {
		spellings[i] = textproto.CanonicalMIMEHeaderKey(s)
	}
	return spellings[1:]
}

// isSoundValue reports whether upstreams read a value unchanged. PHP keeps control characters that gunicorn 20.1 trims.
// gunicorn 20.1 also trims a byte 85 or A0 at an end, which is white space in Latin-1. As the last byte of a value it
// may be part of a character of UTF-8.
func isSoundValue(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return text == "" || !isLatinSpace(text[0]) && (!isLatinSpace(text[len(text)-1]) || utf8.ValidString(text))
}

func isLatinSpace(c byte) bool { return c == 0x85 || c == 0xa0 }
