package check

import (
	"net/http"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Fields of the answer beside the RateLimit fields, in the form in which net/http keeps them. Gateways read them
// for their logs, and where the status cannot say enough.
const (
	fieldReason = "X-Hotparam-Reason"
	fieldRule   = "X-Hotparam-Rule"
	fieldKey    = "X-Hotparam-Key"
	fieldHot    = "X-Hotparam-Hot"
)

// setVerdict says why a verdict is as it is:
//
//	X-Hotparam-Reason: hot
//	X-Hotparam-Rule: topic
//	X-Hotparam-Key: topic?id=42
//	X-Hotparam-Hot: true
//
// Rule and key are absent where the verdict has none, Hot where no key of the request is hot. Bytes that a field cannot
// hold are percent-encoded in them.
func setVerdict(h http.Header, v *hottype.Verdict) {
	h[fieldReason] = []string{v.Reason.String()}
	if v.Rule != "" {
		h[fieldRule] = []string{visible(v.Rule)}
	}
	if v.Key != "" {
		h[fieldKey] = []string{visible(string(v.Key))}
	}
	if v.Hot {
		h[fieldHot] = []string{"true"}
	}
}

// visible is a text with all bytes but those of visible ASCII percent-encoded. Quotes and backslashes are encoded too:
// gateways write the fields into strings of JSON.
func visible(s string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && c != '"' && c != '\\' {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}
