package httplimit

import (
	"net/http"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// Header fields in the form in which net/http keeps them.
const (
	fieldRateLimit  = "Ratelimit"
	fieldPolicy     = "Ratelimit-Policy"
	fieldLimit      = "X-Ratelimit-Limit"
	fieldRemaining  = "X-Ratelimit-Remaining"
	fieldReset      = "X-Ratelimit-Reset"
	fieldRetryAfter = "Retry-After"
	fieldExpose     = "Access-Control-Expose-Headers"
	fieldVary       = "Vary"
)

// maxSFInteger is the greatest integer of a structured field (RFC 9651).
const maxSFInteger = 999_999_999_999_999

// SetLimits sets the fields that describe the limit that applied to the request and its rest: RateLimit and
// RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers), or the older usual fields, or both:
//
//	RateLimit-Policy: "topic";q=200;w=2
//	RateLimit: "topic";r=0;t=1
//
//	X-RateLimit-Limit: 200
//	X-RateLimit-Remaining: 0
//	X-RateLimit-Reset: 1
//
// q is the capacity, w the seconds in which it refills, r the rest, t the seconds until there is more (Retry-After on a
// denial, absent if waiting does not help) or all of it. Nothing is set if no limit is enforced, because clients do not
// see limits in shadow mode.
func (a *Responder) SetLimits(h http.Header, v *hottype.Verdict) { a.setLimits(h, v, new(fieldValues)) }

func (a *Responder) setLimits(h http.Header, v *hottype.Verdict, own *fieldValues) {
	if v.Window <= 0 || v.Mode == hottype.ModeShadow {
		return
	}
	if a.Headers != hottype.HeadersXRateLimit {
		setRateLimit(h, v, own)
	}
	if a.Headers == hottype.HeadersXRateLimit || a.Headers == hottype.HeadersBoth {
		setXRateLimit(h, v, own)
	}
	if a.ExposeHeaders {
		own.add(h, fieldExpose, exposed[a.Headers])
	}
}

// exposed lists the fields that scripts of other origins may read.
var exposed = map[hottype.HeaderStyle]string{
	"":                        "RateLimit, RateLimit-Policy, Retry-After",
	hottype.HeadersRateLimit:  "RateLimit, RateLimit-Policy, Retry-After",
	hottype.HeadersXRateLimit: "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After",
	hottype.HeadersBoth: "RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, " +
		"Retry-After",
}

// IsLimitField reports whether SetLimits may set a field, or add to it. An upstream may have values of its own for it,
// which are sent beside hotparam's.
func IsLimitField(name string) bool {
	switch name {
	case fieldRateLimit, fieldPolicy, fieldLimit, fieldRemaining, fieldReset, fieldExpose:
		return true
	}
	return false
}

func setRateLimit(h http.Header, v *hottype.Verdict, own *fieldValues) {
	if own.text == nil {
		own.text = make([]byte, 0, fieldBytes)
	}
	b := appendPolicy(own.text, v)
	n := len(b)
	b = appendRateLimit(b, v)
	both := unsafe.String(unsafe.SliceData(b), len(b)) // nothing writes to it again
	own.set(h, fieldPolicy, both[:n])
	own.set(h, fieldRateLimit, both[n:])
}

func setXRateLimit(h http.Header, v *hottype.Verdict, own *fieldValues) {
	own.set(h, fieldLimit, strconv.FormatInt(max(v.Limit, 0), 10))
	own.set(h, fieldRemaining, strconv.FormatInt(max(v.Remaining, 0), 10))
	if wait := resetDelay(v); wait != hottype.Never {
		own.set(h, fieldReset, strconv.FormatInt(ceilUnits(wait, time.Second), 10))
	}
}

// SetRetryAfter sets Retry-After for a denied request that may try again, in whole seconds, rounded up and at least 1.
func SetRetryAfter(h http.Header, v *hottype.Verdict) { setRetryAfter(h, v, new(fieldValues)) }

func setRetryAfter(h http.Header, v *hottype.Verdict, own *fieldValues) {
	if v.RetryAfter != hottype.Never {
		own.set(h, fieldRetryAfter, strconv.FormatInt(retrySeconds(v), 10))
	}
}

func retrySeconds(v *hottype.Verdict) int64 { return max(ceilUnits(v.RetryAfter, time.Second), 1) }

// resetDelay returns the wait until a limit has more (on a denial) or all of it again.
func resetDelay(v *hottype.Verdict) time.Duration {
	if v.Allowed {
		return v.ResetAfter
	}
	return v.RetryAfter
}

func appendPolicy(b []byte, v *hottype.Verdict) []byte {
	b = appendSFString(b, quotedRule(v.Rule))
	b = appendParam(b, ";q=", v.Limit)
	if v.Unit != hottype.UnitRequests {
		b = appendSFString(append(b, ";qu="...), v.Unit.String())
	}
	return appendParam(b, ";w=", max(ceilUnits(v.Window, time.Second), 1))
}

func appendRateLimit(b []byte, v *hottype.Verdict) []byte {
	b = appendSFString(b, quotedRule(v.Rule))
	b = appendParam(b, ";r=", v.Remaining)
	wait := resetDelay(v)
	if wait == hottype.Never {
		return b
	}
	return appendParam(b, ";t=", ceilUnits(wait, time.Second))
}

func appendParam(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), min(max(n, 0), maxSFInteger), 10)
}

// appendSFString appends a structured-field string. Bytes that it cannot hold, which rule names do not have, are
// percent-encoded.
func appendSFString(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c > 0x7e:
			b = append(b, '%', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// AppendEscaped appends a text with all bytes but the plain ones percent-encoded.
func AppendEscaped(b []byte, s string, plain func(byte) bool) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}

// ceilUnits returns the number of units that d takes, rounded up.
func ceilUnits(d, unit time.Duration) int64 { return limitcore.CeilDiv(int64(d), int64(unit)) }

// Millis returns a wait in whole milliseconds, rounded up so that waiting that long is enough, or -1 for hottype.Never.
func Millis(d time.Duration) int64 {
	if d == hottype.Never {
		return -1
	}
	return ceilUnits(d, time.Millisecond)
}

// fieldValues has the values of several header fields, and the text of the values that are made for one response. The
// zero value allocates when it is first used.
type fieldValues struct {
	values []string
	text   []byte
}

// fieldBytes is the usual length of the fields of a limit.
const fieldBytes = 96

// newFieldValues returns room for the values of a denial in one allocation, as net/textproto does. Its strings and
// slices belong to one header, so that changes to them affect no other response.
func newFieldValues() *fieldValues {
	var m struct {
		fieldValues
		values [8]string
		text   [fieldBytes]byte
	}
	f := &m
	f.fieldValues = fieldValues{f.values[:0], f.text[:0]}
	return &f.fieldValues
}

func (f *fieldValues) set(h http.Header, name, value string) {
	if f.values == nil {
		f.values = make([]string, 0, 2)
	}
	f.values = append(f.values, value)
	n := len(f.values)
	h[name] = f.values[n-1 : n : n]
}

// add sets a value beside the present ones.
func (f *fieldValues) add(h http.Header, name, value string) {
	switch there := h[name]; {
	case len(there) == 0:
		f.set(h, name, value)
	case !slices.Contains(there, value):
		h[name] = append(there, value)
	}
}
