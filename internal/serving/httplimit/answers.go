// Package httplimit holds what the HTTP servers share, so that a verdict looks
// the same from each of them: who the client of a request is behind proxies
// ([Clients]), how a request of net/http is taken through the gate
// ([HTTPGate]), and what a denial and its header fields are made of
// ([Responder]).
//
// It reads no body, starts nothing and keeps no state but counters. The bytes
// that leave through it are described in docs/gateways.md.
package httplimit

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Responder configure the responses to HTTP clients. The zero value is the documented default. They are not changed
// once in use, and many goroutines may share them.
type Responder struct {
	// Status answers denied requests; 0 means 429.
	Status int
	// Headers are the fields that say which limit applied; "" means RateLimit and RateLimit-Policy.
	Headers hottype.HeaderStyle
	// HideLimits leaves these fields out of answers to requests let pass. Denials always have them.
	HideLimits bool
	// ExposeHeaders names the fields in Access-Control-Expose-Headers, so that scripts of other origins can read them.
	// It does not depend on the Origin of a request, so that a cache can give one answer to everybody.
	ExposeHeaders bool
	// Deny answers denied requests in place of the bodies of this package; nil: these. The fields of the denial are
	// set.
	Deny func(w http.ResponseWriter, r *http.Request, v *hottype.Verdict)
	// DenyHeaders are fields that every denial has besides, such as Access-Control-Allow-Origin.
	DenyHeaders map[string]string
}

// MustResponder returns a Responder with the options of a middleware or an adapter. It panics on options that mean
// nothing, such as the status 200.
func MustResponder(status int, headers hottype.HeaderStyle, hideLimits, exposeHeaders bool) Responder {
	r := Responder{Status: status, Headers: headers, HideLimits: hideLimits, ExposeHeaders: exposeHeaders}
	if err := r.Check(); err != nil {
		panic(err.Error())
	}
	return r
}

// Check reports what is wrong with the settings.
func (a *Responder) Check() error {
	if a.Status != 0 && (a.Status < 400 || a.Status > 599) {
		return fmt.Errorf("httplimit: status %d is no denial: want 400 to 599", a.Status)
	}
	if _, known := exposed[a.Headers]; !known {
		return fmt.Errorf("httplimit: headers %q: want %q, %q or %q", a.Headers,
			hottype.HeadersRateLimit, hottype.HeadersXRateLimit, hottype.HeadersBoth)
	}
	return nil
}

// Enforce does to a request what its verdict says. Denied: it answers and gives false. Allowed: it sets the fields of
// limits, unless hidden, holds the request back where it has to wait, and gives true when it is to go on; false where
// its client has left by then.
func (a *Responder) Enforce(w http.ResponseWriter, r *http.Request, v *hottype.Verdict) bool {
	switch {
	case v.Allowed:
	case a.Deny != nil:
		a.SetDenied(w.Header(), v)
		denied := *v // on the heap, and only here
		a.Deny(w, r, &denied)
		return false
	default:
		a.WriteDenied(w, r.Method, r.Header["Accept"], v)
		return false
	}
	if !a.HideLimits {
		a.SetLimits(w.Header(), v)
	}
	return Wait(r.Context(), v)
}

// SetDenied sets the fields of a denial that do not depend on its body: those of limits and Retry-After, and what
// DenyHeaders has.
func (a *Responder) SetDenied(h http.Header, v *hottype.Verdict) { a.setDenied(h, v, new(fieldValues)) }

func (a *Responder) setDenied(h http.Header, v *hottype.Verdict, own *fieldValues) {
	a.setLimits(h, v, own)
	setRetryAfter(h, v, own)
	for name, value := range a.DenyHeaders {
		own.set(h, http.CanonicalHeaderKey(name), value)
	}
}

// WriteDenied answers a denied request: the status, the fields of SetDenied, and a body of the form that its Accept
// fields like best: a problem document (RFC 9457), a page, or text. They all say why and when to try again.
func (a *Responder) WriteDenied(w http.ResponseWriter, method string, accept []string, v *hottype.Verdict) {
	status := cmp.Or(a.Status, http.StatusTooManyRequests)
	h := w.Header()
	own := newFieldValues()
	a.setDenied(h, v, own)
	own.add(h, fieldVary, "Accept")
	kind := bodyProblem
	if len(accept) > 0 {
		kind = bodyFor(strings.Join(accept, ","))
	}
	switch kind {
	case bodyHTML:
		own.set(h, "Content-Security-Policy", pagePolicy)
		writeBody(w, status, "text/html; charset=utf-8", page(status, method, v, rand.Float64()), own)
	case bodyText:
		writeBody(w, status, "text/plain; charset=utf-8", text(status, v), own)
	default:
		buf := problems.Get().(*[]byte)
		*buf = problem((*buf)[:0], status, v)
		writeBody(w, status, typeProblem, *buf, own)
		problems.Put(buf)
	}
}

// problems has buffers of problem documents, which Write does not keep. Quote bounds their length.
var problems = sync.Pool{New: func() any { return new([]byte) }}

// writeBody sends an answer in place of the one that the header was meant for. A failed write is the client's loss and
// shows in the server's log; nothing here can act on it.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte, own *fieldValues) {
	h := w.Header()
	for _, name := range [...]string{"Content-Encoding", "Content-Length", "Etag", "Last-Modified"} {
		delete(h, name)
	}
	own.set(h, "Content-Type", contentType)
	own.set(h, "Cache-Control", "no-store")
	own.set(h, "X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// HeaderField is one header line of a request that a gateway received.
type HeaderField struct{ Name, Value string }

// Headers are the header lines of a request that a gateway received, in their order.
// They implement hottype.Header.
type Headers []HeaderField

// Get gives the first value of a header, whatever the case of its name, or "".
func (h *Headers) Get(name string) string {
	for i := range *h {
		if strings.EqualFold((*h)[i].Name, name) {
			return (*h)[i].Value
		}
	}
	return ""
}

// JoinedHeaders are the fields of a gateway that joins the lines of a field by commas without spaces, as Envoy does. A
// value that may be of several lines counts as such: Values returns it whole, and its parts behind it.
type JoinedHeaders struct{ hottype.Header }

// Values gives all values of a header, whatever the case of its name.
func (h JoinedHeaders) Values(name string) []string {
	values := h.Header.Values(name)
	if len(values) == 1 && mayBeJoined(values[0]) {
		values = append(values, strings.Split(values[0], ",")...)
	}
	return values
}

// mayBeJoined reports whether a text has a comma with no space behind it, also at its end.
func mayBeJoined(text string) bool {
	for i := range len(text) {
		if text[i] == ',' && (i+1 == len(text) || text[i+1] != ' ') {
			return true
		}
	}
	return false
}

// Values gives all values of a header, whatever the case of its name.
func (h *Headers) Values(name string) []string {
	var values []string
	for i := range *h {
		if strings.EqualFold((*h)[i].Name, name) {
			values = append(values, (*h)[i].Value)
		}
	}
	return values
}
