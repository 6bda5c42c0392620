package envoy

import (
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Keys of a descriptor's entries that do not name a query parameter. An entry
// "header.User-Agent" is the header of that name.
const (
	keyPath         = "path"
	keyMethod       = "method"
	keyHost         = "host"
	keyGeneric      = "generic_key"
	keyRemote       = "remote_address"
	keyMaskedRemote = "masked_remote_address"
	prefixHeader    = "header."
)

// described is a request as a descriptor describes it.
type described struct {
	request hottype.Request
	headers httplimit.Headers
	// named says that the descriptor holds more than the client's address.
	named bool
}

// describe makes the request that a descriptor stands for:
//
//	path            the request target as received, with its query (Envoy's header ":path").
//	                Nothing else in the descriptor is then taken for a query parameter
//	method, host    the method (default GET) and the host
//	generic_key     without path: the path, with a slash put in front if it has none
//	remote_address, masked_remote_address   the client
//	header.NAME     a header
//	anything else   without path: a query parameter of that name
//
// Without path and generic_key the path is the domain. A leading colon of a key is ignored, so
// that ":path" is path.
func describe(domain string, d *descriptor) *described {
	r := &described{request: hottype.Request{Method: "GET"}}
	path, target, query := domain, "", []byte(nil)
	for _, e := range d.entries {
		client := false
		switch key := strings.TrimPrefix(e.key, ":"); key {
		case keyPath:
			target = e.value
		case keyMethod:
			r.request.Method = e.value
		case keyHost, "authority":
			r.request.Host = e.value
		case keyGeneric:
			path = e.value
		case keyRemote, keyMaskedRemote:
			client = true
			address, _, _ := strings.Cut(e.value, "/") // of a masked one the network's address
			httplimit.IdentifyText(&r.request, address)
		default:
			if name, ok := strings.CutPrefix(key, prefixHeader); ok {
				r.headers = append(r.headers, httplimit.HeaderField{Name: name, Value: e.value})
				break
			}
			if len(query) > 0 {
				query = append(query, '&')
			}
			query = append(appendQuery(query, e.key), '=')
			query = appendQuery(query, e.value)
		}
		r.named = r.named || !client
	}
	r.request.Header = &r.headers
	if r.request.Target = target; target == "" {
		r.request.Target = join(path, query)
	}
	return r
}

// join makes a request target of a path in plain text and an escaped query.
func join(path string, query []byte) string {
	b := append(make([]byte, 0, 2+3*len(path)+len(query)), '/')
	b = appendPath(b, strings.TrimPrefix(path, "/"))
	if len(query) > 0 {
		b = append(append(b, '?'), query...)
	}
	return string(b)
}

// appendQuery escapes what Envoy has decoded of a query. Envoy leaves a plus sign as it is, so
// one may have been written "+" or "%2B"; it goes on as "+", which is what the rule says about
// plus signs, because clients write that one.
func appendQuery(b []byte, s string) []byte {
	return httplimit.AppendEscaped(b, s, func(c byte) bool { return unreserved(c) || c == '+' })
}

// appendPath escapes the text of a path; slashes stay.
func appendPath(b []byte, s string) []byte {
	return httplimit.AppendEscaped(b, s, func(c byte) bool { return unreserved(c) || c == '/' })
}

// unreserved are the characters that RFC 3986 lets stand for themselves everywhere.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
