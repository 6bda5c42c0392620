package respcache

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// Why a request passes by the cache.
const (
	byAuthorization = "authorization"
	byCookie        = "cookie"
	byCertificate   = "certificate"
	byBody          = "body"
	byUpgrade       = "upgrade"
	byPrecondition  = "precondition"
	byField         = "field"
	byRange         = "range"
	byUncacheable   = "uncacheable" // the last answer was not to be kept
)

// bypass says why a request must not be answered from the cache, "" where it may.
func bypass(r *http.Request, s *hottype.CachePolicy) string {
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

// appendPart writes a part of a key after its length, so that no two lists of parts are one key.
func appendPart(b []byte, part string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// appendTarget writes what distinguishes the targets of requests: all that the handler sees
// of a request but the fields of Vary, which handler that is, and the request's class, by which
// it may go to another upstream.
func appendTarget(b []byte, r *http.Request, scope, class string) []byte {
	b = appendPart(appendPart(b, scope), class)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	target := r.RequestURI
	if target == "" {
		target = r.URL.RequestURI() // made by a program
	}
	b = appendPart(appendPart(appendPart(b, scheme), r.Host), target)
	for _, name := range forwarding {
		for _, v := range r.Header[name] {
			b = appendPart(appendPart(b, name), v)
		}
	}
	return b
}

// partOf gives the Range of a request whose partial response may be stored, "" if it may not.
func partOf(r *http.Request) string {
	h := r.Header
	if r.Method != http.MethodGet || len(h["Range"]) != 1 || len(h["If-Range"]) > 0 ||
		len(h["If-None-Match"])+len(h["If-Modified-Since"]) > 0 {
		return ""
	}
	return h["Range"][0]
}

// appendVariant writes the fields by which the answers of a target differ, as a fetch carries them, and
// the Range of a part.
func appendVariant(b []byte, r *http.Request, vary []string, part string) []byte {
	for _, name := range vary {
		values := r.Header[name]
		if len(values) == 0 {
			b = append(b, 0) // absent is not empty
			continue
		}
		if name == "Accept-Encoding" {
			if set, known := codingsOf(values); known {
				b = append(b, 2, set)
				continue
			}
		}
		b = appendPart(append(b, 1), normal(name, values))
	}
	if part != "" {
		b = append(append(b, 3), part...)
	}
	return b
}

// codings are those that upstreams choose between, by a bit each.
var codings = []string{"gzip", "br", "zstd", "deflate", "identity", "*", "x-gzip"}

// codingsOf gives the set that normal makes of an Accept-Encoding, without an allocation. It is
// not known if the field has weights or other codings.
func codingsOf(values []string) (set uint8, known bool) {
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			i := slices.Index(codings, strings.TrimSpace(name))
			if i < 0 {
				return 0, false
			}
			set |= 1 << i
		}
	}
	return set, true
}

// Invalidating gives the handler for a request that does not come to Serve. A request of a
// method that may change its target takes the stored answers for that out when the handler
// answers it without an error, and those for its Location and Content-Location (RFC 9111
// section 4.4).
func (c *Cache) Invalidating(next http.Handler, r *http.Request, v *hottype.Verdict, scope string) http.Handler {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return next
	}
	if c.fetched.Load() == 0 { // what is being fetched now counts too: it may be of before the change
		return next
	}
	class := v.Class
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httplimit.ServeWithStatus(w, r, next, func(status int) {
			if status >= 200 && status < 400 {
				c.invalidate(w.Header(), r, scope, class)
			}
		})
	})
}

// invalidate takes out what an answer with these fields made old.
func (c *Cache) invalidate(h http.Header, r *http.Request, scope, class string) {
	c.store.invalidate(appendTarget(nil, r, scope, class))
	for _, name := range []string{"Location", "Content-Location"} {
		u, err := r.URL.Parse(h.Get(name))
		if err != nil || h.Get(name) == "" || u.Host != "" && u.Host != r.Host {
			continue // another origin's are not for this one to change
		}
		other := *r
		other.RequestURI = u.RequestURI()
		c.store.invalidate(appendTarget(nil, &other, scope, class))
	}
}
