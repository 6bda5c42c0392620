package respcache

import (
	"net/http"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Why a request passes by the cache.
const (
	byAuthorization = "authorization"
	byCookie        = "cookie"
	byCertificate   = "certificate"
	byBody          = "body"
	byUpgrade       = "upgrade"
	byPrecondition  = "precondition"
	byOverride      = "override-field"
	byRange         = "range"
	byUncacheable   = "uncacheable" // the last answer was not to be kept
)

// overrides reports whether frameworks read another target, method or origin in a field than
// the request has. These fields are no part of the key, so that one client could have an
// answer stored that is not what the others asked for.
func overrides(field string) bool {
	switch field {
	case "X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Url", "X-Original-Uri",
		"X-Rewrite-Url", "X-Forwarded-Scheme", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Server",
		"X-Forwarded-Path", "X-Forwarded-Uri", "X-Host", "X-Url-Scheme", "Front-End-Https", "X-Forwarded-Ssl",
		"X-Forwarded-Protocol", "X-Script-Name":
		return true
	}
	return false
}

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
	for name, values := range h {
		if len(values) > 0 && overrides(name) {
			return byOverride
		}
	}
	return ""
}

// forwarding are the fields that name the origin by which a client came.
var forwarding = []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"}

// appendTarget writes what distinguishes the targets of requests: all that the handler sees
// of a request without fields, which handler that is, and the request's class, by which it
// may go to another upstream. No part of it can hold the line feed that ends it.
func appendTarget(b []byte, r *http.Request, scope, class string) []byte {
	b = append(append(append(append(b, scope...), '\n'), class...), '\n')
	if r.TLS != nil {
		b = append(b, 's')
	}
	b = append(append(b, r.Host...), '\n')
	target := r.RequestURI
	if target == "" {
		target = r.URL.RequestURI() // made by a program
	}
	b = append(b, target...)
	for _, name := range forwarding {
		for _, v := range r.Header[name] {
			b = append(append(append(append(b, '\n'), name...), ':'), v...)
		}
	}
	return b
}

// appendVariant writes the values of the fields by which the answers of a target differ.
func appendVariant(b []byte, r *http.Request, vary []string) []byte {
	for _, name := range vary {
		for i, v := range r.Header[name] {
			if i > 0 {
				b = append(b, ',') // several lines are one list (RFC 9110 section 5.3)
			}
			if name == "Accept-Encoding" {
				b = appendCodings(b, v)
			} else {
				b = append(b, strings.TrimSpace(v)...)
			}
		}
		if len(r.Header[name]) == 0 {
			b = append(b, 0) // absent is not empty
		}
		b = append(b, '\n')
	}
	return b
}

// codings are those that upstreams choose between, by a bit each.
var codings = []string{"gzip", "br", "zstd", "deflate", "identity", "*", "x-gzip"}

// appendCodings writes an Accept-Encoding so that lists of the same plain codings are the
// same: browsers and libraries write them in many ways. A list with weights or unknown
// codings stands as it is.
func appendCodings(b []byte, v string) []byte {
	set := uint8(0)
	for name := range strings.SplitSeq(v, ",") {
		i := slices.Index(codings, strings.TrimSpace(name))
		if i < 0 {
			return append(b, v...)
		}
		set |= 1 << i
	}
	return append(b, 1, set)
}
