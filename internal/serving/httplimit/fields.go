package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Header fields in the form in which net/http keeps them.
const (
	fieldRateLimit  = "Ratelimit"
	fieldPolicy     = "Ratelimit-Policy"
	fieldRetryAfter = "Retry-After"
)

// maxSFInteger is the greatest integer of a structured field (RFC 9651).
const maxSFInteger = 999_999_999_999_999

// SetRateLimit says in RateLimit and RateLimit-Policy
// (draft-ietf-httpapi-ratelimit-headers) which limit applied to the request and
// what is left of it:
//
//	RateLimit-Policy: "topic";q=200;w=2
//	RateLimit: "topic";r=0;t=1
//
// q is the capacity, w the seconds in which it is given again, r what remains,
// t the seconds until there is more (Retry-After on a refusal, absent where
// waiting does not help) or all of it. Nothing is set where no limit is
// enforced: clients do not see limits in shadow mode.
func SetRateLimit(h http.Header, v *hottype.Verdict) {
	if v.Window <= 0 || v.Mode == hottype.ModeShadow {
		return
	}
	var buf [128]byte
	h[fieldPolicy] = []string{string(appendPolicy(buf[:0], v))}
	h[fieldRateLimit] = []string{string(appendRateLimit(buf[:0], v))}
}

func appendPolicy(b []byte, v *hottype.Verdict) []byte {
	b = appendSFString(b, v.Rule)
	b = appendParam(b, ";q=", v.Limit)
	return appendParam(b, ";w=", max(ceil(v.Window, time.Second), 1))
}

func appendRateLimit(b []byte, v *hottype.Verdict) []byte {
	b = appendSFString(b, v.Rule)
	b = appendParam(b, ";r=", v.Remaining)
	wait := v.ResetAfter
	if !v.Allowed {
		wait = v.RetryAfter
	}
	if wait == hottype.Never {
		return b
	}
	return appendParam(b, ";t=", ceil(wait, time.Second))
}

func appendParam(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), min(max(n, 0), maxSFInteger), 10)
}

// appendSFString writes a structured-field string. Bytes that one cannot hold
// (rule names have none) are percent-encoded.
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

// ceil is how many units d takes, rounded up.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// Millis is a wait in whole milliseconds, rounded up so that waiting that long
// is enough; -1 for hottype.Never.
func Millis(d time.Duration) int64 {
	if d == hottype.Never {
		return -1
	}
	return ceil(d, time.Millisecond)
}
