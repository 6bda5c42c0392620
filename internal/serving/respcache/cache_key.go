package respcache

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// Reasons for which a request bypasses the cache.
const (
	byAuthorization = "authorization"
	byCookie        = "cookie"
	byCertificate   = "certificate"
	byBody          = "body"
	byUpgrade       = "upgrade"
	byPrecondition  = "precondition"
	byField         = "field"
	byRange         = "range"
	// The last response must not be stored, or takes longer than requests may wait.
	byUncacheable = "uncacheable"
)

// bypassReason returns the reason why the cache must not answer a request, or "" if it may.
func bypassReason(r *http.Request, s *hottype.CachePolicy) string {
	h := r.Header
	switch {
	case len(h["Authorization"]) > 0, len(h["Proxy-Authorization"]) > 0:
		return byAuthorization
	case len(h["Cookie"]) > 0 && !s.StripCookies:
		return byCookie
	case r.TLS != nil && len(r.TLS.PeerCertificates) > 0:
		return byCertificate
	case r.ContentLength != 0:
		return byBody
	case len(h["Upgrade"]) > 0:
		return byUpgrade
	case len(h["If-Match"])+len(h["If-Unmodified-Since"]) > 0:
		return byPrecondition
	}
	if unknownField(h, s) != "" {
		return byField
	}
	return ""
}

// appendPart appends a part of a key after its length, so that different lists of parts are different keys.
func appendPart(b []byte, part string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// appendTarget appends the parts of a request that distinguish its target: everything that the handler sees of it
// except the fields of Vary, the handler's scope, and the request's class, because a class may go to another upstream.
func appendTarget(b []byte, r *http.Request, scope, class string) []byte {
	b = appendPart(appendPart(b, scope), class)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	target := r.RequestURI
	if target == "" {
		target = r.URL.RequestURI() // for requests that a program made
	}
	b = appendPart(appendPart(appendPart(b, scheme), r.Host), target)
	for _, name := range forwarding {
		for _, v := range r.Header[name] {
			b = appendPart(appendPart(b, name), v)
		}
	}
	return b
}

// partOf returns the Range of a request whose partial response may be stored, or "" if it may not.
func partOf(r *http.Request) string {
	h := r.Header
	if r.Method != http.MethodGet || len(h["Range"]) != 1 || len(h["If-Range"]) > 0 ||
		len(h["If-None-Match"])+len(h["If-Modified-Since"]) > 0 {
		return ""
	}
	return h["Range"][0]
}

// appendVariant appends the codings that a client accepts, the fields in vary, by which the responses of a target
// differ, in the form in which a fetch carries them, and the Range of a part. Codings always count, because some
// upstreams compress without a Vary.
func appendVariant(b []byte, r *http.Request, vary []string, part string) []byte {
	b = append(b, codingsOf(r.Header["Accept-Encoding"]))
	for _, name := range vary {
		values := r.Header[name]
		if len(values) == 0 {
			b = append(b, 0) // absent is not empty
			continue
		}
		b = appendPart(append(b, 1), normalForm(name, values))
	}
	if part != "" {
		b = append(append(b, 2), part...)
	}
	return b
}

// codings are the content codings that upstreams choose between. A set of them has a bit for each.
var codings = []string{"gzip", "br", "zstd", "deflate"}

// codingsOf returns the set of codings that an Accept-Encoding accepts, without an allocation. Weights other than 0 do
// not count, nor do other codings and "*", so that clients cannot make more variants than there are sets.
func codingsOf(values []string) (set uint8) {
	var refused uint8
	for _, v := range values {
		for member := range strings.SplitSeq(v, ",") {
			name, weight, weighted := strings.Cut(member, ";")
			name = strings.Trim(name, " \t")
			i := slices.IndexFunc(codings, func(c string) bool { return strings.EqualFold(c, name) })
			switch {
			case i < 0:
			case weighted && !isPositive(weight):
				refused |= 1 << i
			default:
				set |= 1 << i
			}
		}
	}
	return set &^ refused
}

// isPositive reports whether the parameter of a member is a weight above 0.
func isPositive(param string) bool {
	name, q, _ := strings.Cut(strings.Trim(param, " \t"), "=")
	isNumber := q != "" && strings.Trim(q, "0123456789.") == ""
	return strings.EqualFold(name, "q") && isNumber && strings.Trim(q, "0.") != ""
}

// normalCodings returns the Accept-Encoding of fetches whose clients accept a set of codings. An upstream may encode
// the response to a request without the field, so the empty set is written as "identity".
func normalCodings(set uint8) string {
	if set == 0 {
		return "identity"
	}
	names := make([]string, 0, len(codings))
	for i, name := range codings {
		if set>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Invalidation returns a function for a request that does not come to Serve, to be called with the status of the
// response when the response begins. It returns nil if there is nothing to invalidate. If the request has a method that
// may change its target and the handler answers it without an error, the function removes the stored responses of the
// target, and of the response's Location and Content-Location (RFC 9111 section 4.4).
func (c *Cache) Invalidation(w http.ResponseWriter, r *http.Request, v *verdict.Verdict,
	scope string) func(status int) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return nil
	}
	if c.fetched.Load() == 0 { // running fetches count too: their responses may be of before the change
		return nil
	}
	class := v.Class
	return func(status int) {
		if status >= 200 && status < 400 {
			c.invalidate(w.Header(), r, scope, class)
		}
	}
}

// invalidate removes the stored responses that a response with the fields in h makes outdated.
func (c *Cache) invalidate(h http.Header, r *http.Request, scope, class string) {
	c.store.invalidate(appendTarget(nil, r, scope, class))
	for _, name := range []string{"Location", "Content-Location"} {
		u, err := r.URL.Parse(h.Get(name))
		if err != nil || h.Get(name) == "" || u.Host != "" && u.Host != r.Host {
			continue // no origin may invalidate the responses of another host
		}
		other := *r
		other.RequestURI = u.RequestURI()
		c.store.invalidate(appendTarget(nil, &other, scope, class))
	}
}
