package httplimit

import (
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// typeQuota is the problem type of a refusal by a limit, as the draft of the
// RateLimit fields registers it; other problems have no type of their own.
const (
	typeQuota = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeNone  = "about:blank"
)

// typeProblem is the media type of a problem document.
const typeProblem = "application/problem+json"

// problem is the refusal for programs, with the members rule, key, reason and retry_after_ms (-1: waiting does not
// help).
func problem(status int, v *hottype.Verdict) []byte {
	typ := typeNone
	if v.Window > 0 {
		typ = typeQuota
	}
	b := appendProblem(make([]byte, 0, 512), typ, status, v.Reason.Info().Detail)
	b = AppendJSONString(append(b, `,"rule":`...), v.Rule)
	b = AppendJSONString(append(b, `,"key":`...), string(v.Key))
	b = AppendJSONString(append(b, `,"reason":`...), v.Reason.String())
	b = strconv.AppendInt(append(b, `,"retry_after_ms":`...), Millis(v.RetryAfter), 10)
	return append(b, "}\n"...)
}

// WriteProblem answers with a problem document that has only the plain
// members. The detail is for the client to read.
func WriteProblem(w http.ResponseWriter, status int, detail string) {
	b := appendProblem(make([]byte, 0, 256), typeNone, status, detail)
	own := make(fieldValues, 0, 3)
	writeBody(w, status, typeProblem, append(b, "}\n"...), &own)
}

// appendProblem writes the plain members and leaves the object open.
func appendProblem(b []byte, typ string, status int, detail string) []byte {
	title := http.StatusText(status)
	b = AppendJSONString(append(b, `{"type":`...), typ)
	b = AppendJSONString(append(b, `,"title":`...), title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(status), 10)
	return AppendJSONString(append(b, `,"detail":`...), detail)
}

// AppendJSONString writes s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD.
func AppendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			if r, n := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		} else if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch {
		case c >= utf8.RuneSelf:
			b = append(b, `\ufffd`...)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, '\\', c)
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
