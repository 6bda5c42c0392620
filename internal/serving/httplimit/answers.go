// Package httplimit holds the parts that the HTTP servers share, so that all of them treat a verdict in the same way:
// [Clients] finds the client of a request behind proxies, [HTTPGate] takes a request of net/http through the gate, and
// [Responder] writes a denial and its header fields.
//
// It reads no body, starts nothing and keeps no state but counters. docs/gateways.md describes the bytes that it sends.
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

// Responder configures the responses to HTTP clients. The zero value is the documented default. A Responder is not
// changed once in use, and many goroutines may share it.
type Responder struct {
	// Status is the status of denials; 0 means 429.
	Status int
	// Headers selects the fields that describe the limit that applied; "" means RateLimit and RateLimit-Policy.
	Headers hottype.HeaderStyle
	// HideLimits leaves these fields out of responses to allowed requests. Denials always have them.
	HideLimits bool
	// ExposeHeaders names the fields in Access-Control-Expose-Headers, so that scripts of other origins can read them.
	// It does not depend on the Origin of a request, so that a cache can send one response to all clients.
	ExposeHeaders bool
	// Deny, if not nil, answers denied requests in place of the bodies of this package. The fields of the denial are
	// already set.
	Deny func(w http.ResponseWriter, r *http.Request, v *hottype.Verdict)
	// DenyHeaders are further fields of every denial, such as Access-Control-Allow-Origin.
	DenyHeaders map[string]string
	// Clients decides which peers may state that a client uses TLS; nil trusts none.
	Clients *Clients
}

// Denied describes a denied request, as far as the response depends on it.
type Denied struct {
	Method string
	Accept []string // lines of the field
	TLS    bool     // whether the client uses TLS, so that it can keep the cookie of a pass to TLS
}

// MustResponder returns a Responder with the options of a middleware or an adapter. It panics on invalid options, such
// as the status 200.
func MustResponder(status int, headers hottype.HeaderStyle, hideLimits, exposeHeaders bool) Responder {
	r := Responder{Status: status, Headers: headers, HideLimits: hideLimits, ExposeHeaders: exposeHeaders}
	if err := r.Check(); err != nil {
		panic(err.Error())
	}
	return r
}

// Check returns an error for the first invalid setting.
func (a *Responder) Check() error {
	if a.Status != 0 && (a.Status < 400 || a.Status > 599) {
		return fmt.Errorf("httplimit: status %d of denials must be 400 to 599", a.Status)
	}
	if _, known := exposed[a.Headers]; !known {
		return fmt.Errorf("httplimit: headers %q must be %q, %q or %q", a.Headers,
			hottype.HeadersRateLimit, hottype.HeadersXRateLimit, hottype.HeadersBoth)
	}
	return nil
}

// Enforce applies a verdict to a request. If the request is denied, Enforce answers it and returns false. If it is
// allowed, Enforce sets the fields of limits, unless they are hidden, holds the request back if it has to wait, and
// returns true when it may go on, or false if its client has left by then.
func (a *Responder) Enforce(w http.ResponseWriter, r *http.Request, v *hottype.Verdict) bool {
	switch {
	case v.Allowed:
	case a.Deny != nil:
		a.SetDenied(w.Header(), v, a.UsesTLS(r, v))
		denied := *v // on the heap, and only here
		a.Deny(w, r, &denied)
		return false
	default:
		a.WriteDenial(w, r, v)
		return false
	}
	if !a.HideLimits {
		a.SetLimits(w.Header(), v)
	}
	return Wait(r.Context(), v)
}

// SetDenied sets the fields of a denial that do not depend on its body: the fields of limits, Retry-After, DenyHeaders,
// and the cookie of its visitor pass, if it has one. tls is true if the client uses TLS.
func (a *Responder) SetDenied(h http.Header, v *hottype.Verdict, tls bool) {
	a.setDenied(h, v, tls, new(fieldValues))
}

func (a *Responder) setDenied(h http.Header, v *hottype.Verdict, tls bool, own *fieldValues) {
	a.setLimits(h, v, own)
	setRetryAfter(h, v, own)
	for name, value := range a.DenyHeaders {
		own.set(h, http.CanonicalHeaderKey(name), value)
	}
	if cookie := PassCookie(v, tls); cookie != "" {
		forbidStoring(h) // in case Deny does not
		own.add(h, fieldSetCookie, cookie)
	}
}

// WriteDenial answers a denied request of net/http by WriteDenied.
func (a *Responder) WriteDenial(w http.ResponseWriter, r *http.Request, v *hottype.Verdict) {
	a.WriteDenied(w, Denied{r.Method, r.Header["Accept"], a.UsesTLS(r, v)}, v)
}

// WriteDenied answers a denied request: with the status, the fields of SetDenied, and a body in the form that its
// Accept fields prefer: a problem document (RFC 9457), a page, or text. Each states the reason and when to try again.
func (a *Responder) WriteDenied(w http.ResponseWriter, r Denied, v *hottype.Verdict) {
	status := cmp.Or(a.Status, http.StatusTooManyRequests)
	h := w.Header()
	own := newFieldValues()
	a.setDenied(h, v, r.TLS, own)
	own.add(h, fieldVary, "Accept")
	kind := bodyProblem
	if len(r.Accept) > 0 {
		kind = bodyFor(strings.Join(r.Accept, ","))
	}
	switch kind {
	case bodyHTML:
		own.set(h, "Content-Security-Policy", pagePolicy)
		writeBody(w, status, "text/html; charset=utf-8", denialPage(status, r.Method, v, rand.Float64()), own)
	case bodyText:
		writeBody(w, status, "text/plain; charset=utf-8", denialText(status, v), own)
	default:
		buf := problems.Get().(*[]byte)
		*buf = appendDenial((*buf)[:0], status, v)
		writeBody(w, status, typeProblem, *buf, own)
		problems.Put(buf)
	}
}

// problems has buffers of problem documents, which Write does not keep. Quote bounds their length.
var problems = sync.Pool{New: func() any { return new([]byte) }}

// writeBody sends a response in place of the one for which the header was made. A failed write only affects the client,
// and shows in the server's log.
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

// Get returns the first value of a header, or "". The case of the name does not matter.
func (h *Headers) Get(name string) string {
	for i := range *h {
		if strings.EqualFold((*h)[i].Name, name) {
			return (*h)[i].Value
		}
	}
	return ""
}

// JoinedHeaders are the fields of a gateway that joins the lines of a field by commas without spaces, as Envoy does. A
// value that may consist of several lines counts as such: Values returns it whole, followed by its parts.
type JoinedHeaders struct{ hottype.Header }

// Values returns all values of a header. The case of the name does not matter.
func (h JoinedHeaders) Values(name string) []string {
	values := h.Header.Values(name)
	if len(values) == 1 && mayBeJoined(values[0]) {
		values = append(values, strings.Split(values[0], ",")...)
	}
	return values
}

// mayBeJoined reports whether a text has a comma without a space after it, also at its end.
func mayBeJoined(text string) bool {
	for i := range len(text) {
		if text[i] == ',' && (i+1 == len(text) || text[i+1] != ' ') {
			return true
		}
	}
	return false
}

// Values returns all values of a header. The case of the name does not matter.
func (h *Headers) Values(name string) []string {
	var values []string
	for i := range *h {
		if strings.EqualFold((*h)[i].Name, name) {
			values = append(values, (*h)[i].Value)
		}
	}
	return values
}
