package httplimit

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// pageFormat is the page for people: a format of status, title, refresh, heading, detail and advice. It holds no part
// of the request or the rules, so nothing has to be escaped.
//
//go:embed page.html
var pageFormat string

// pagePolicy lets the page use its own style and nothing else.
var pagePolicy = func() string {
	_, rest, _ := strings.Cut(pageFormat, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
}()

// Bounds of the page that reloads itself.
const (
	maxReload = 2 * time.Minute // people reload by themselves after longer waits
	// reloadJitter is added to the wait of a page only. The RetryAfter of the verdict may hold a jitter of its own
	// already (retry_jitter, in package gate).
	reloadJitter = 4 * time.Second
)

// denialPage returns the denial for a person.
func denialPage(status int, method string, v *hottype.Verdict, random float64) []byte {
	refresh, advice := "", adviceFor(v)
	if seconds := reloadAfter(method, v, random); seconds > 0 {
		refresh = "\n" + `<meta http-equiv="refresh" content="` + strconv.FormatInt(seconds, 10) + `">`
		advice += " This page does so by itself."
	}
	reason := v.Reason.Info()
	return fmt.Appendf(nil, pageFormat, status, http.StatusText(status), refresh, reason.Title, reason.Detail, advice)
}

// reloadAfter returns the number of seconds after which a page reloads itself, or 0 for never. Only the page of a GET
// does, because asking again must change nothing, and only after a wait that a person sits out. A part of reloadJitter
// spreads the readers of one page.
func reloadAfter(method string, v *hottype.Verdict, random float64) int64 {
	if method != http.MethodGet || v.RetryAfter == hottype.Never || v.RetryAfter > maxReload {
		return 0
	}
	return retrySeconds(v) + ceilUnits(time.Duration(random*float64(reloadJitter)), time.Second)
}

// denialText returns the denial in plain text.
func denialText(status int, v *hottype.Verdict) []byte {
	return fmt.Appendf(nil, "%d %s\n%s %s\n", status, http.StatusText(status), v.Reason.Info().Detail, adviceFor(v))
}

// adviceFor returns the advice to a person.
func adviceFor(v *hottype.Verdict) string {
	if v.RetryAfter == hottype.Never {
		return "Trying again does not help."
	}
	return "You can try again in " + formatSeconds(retrySeconds(v)) + "."
}

// formatSeconds returns a number of seconds in a unit that a person would use, rounded up.
func formatSeconds(seconds int64) string {
	n, unit := seconds, "second"
	switch {
	case seconds > 48*3600:
		n, unit = (seconds+86399)/86400, "day"
	case seconds > 90*60:
		n, unit = (seconds+3599)/3600, "hour"
	case seconds > 90:
		n, unit = (seconds+59)/60, "minute"
	}
	if n != 1 {
		unit += "s"
	}
	return strconv.FormatInt(n, 10) + " " + unit
}

// typeQuota is the problem type of a denial by a limit, as the draft of the RateLimit fields registers it. Other
// problems have no type of their own.
const (
	typeQuota = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeNone  = "about:blank"
)

// typeProblem is the media type of a problem document.
const typeProblem = "application/problem+json"

// appendDenial appends the denial for programs, with the members rule, key, reason and retry_after_ms (-1 if waiting
// does not help).
func appendDenial(b []byte, status int, v *hottype.Verdict) []byte {
	typ := typeNone
	if v.Window > 0 {
		typ = typeQuota
	}
	b = append(append(appendProblem(b, typ, status), v.Reason.Info().Detail...), `","rule":`...)
	b = AppendJSONString(b, quotedRule(v.Rule))
	b = AppendJSONString(append(b, `,"key":`...), string(quotedKey(v.Key)))
	b = append(append(append(b, `,"reason":"`...), v.Reason.String()...), `","retry_after_ms":`...)
	b = strconv.AppendInt(b, Millis(v.RetryAfter), 10)
	return append(b, "}\n"...)
}

// WriteProblem answers with a problem document that has only the plain members. The detail is for the client to read.
// The end of a long detail is cut off.
func WriteProblem(w http.ResponseWriter, status int, detail string) {
	b := appendProblem(make([]byte, 0, 256), typeNone, status)
	b = AppendJSONString(b[:len(b)-1], Detail(detail))
	writeBody(w, status, typeProblem, append(b, "}\n"...), newFieldValues())
}

// appendProblem appends the plain members up to the text of the detail. The texts of this package and of reasons need
// no escapes.
func appendProblem(b []byte, typ string, status int) []byte {
	b = append(append(b, `{"type":"`...), typ...)
	b = append(append(b, `","title":"`...), http.StatusText(status)...)
	b = strconv.AppendInt(append(b, `","status":`...), int64(status), 10)
	return append(b, `,"detail":"`...)
}

// plainJSON marks the bytes that a JSON string holds unescaped.
var plainJSON = func() (plain [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// AppendJSONString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if plainJSON[s[i]] {
			i++
			continue
		}
		c := s[i]
		if c >= utf8.RuneSelf {
			if r, n := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
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

// bodyKind is a form of the body of a denial.
type bodyKind int

// Forms, the preferred first. If a client accepts several equally, the first of them is sent.
const (
	bodyProblem bodyKind = iota
	bodyHTML
	bodyText
)

// bodyFor returns the form that an Accept field prefers (RFC 9110, section 12.5.1). For each form the most specific
// range that covers it decides its quality. A client that accepts no form gets the problem document, because a denial
// in a wrong form is better than no text. Parameters other than q are ignored.
func bodyFor(accept string) bodyKind {
	if accept == "" || accept == "*/*" {
		return bodyProblem
	}
	var q, specific [3]int
	for len(accept) > 0 {
		var element string
		element, accept = CutOutsideQuotes(accept, ',')
		name, params := CutOutsideQuotes(element, ';')
		quality := qualityOf(params)
		for kind := range q {
			if s := rangeCoverage(strings.TrimSpace(name), bodyKind(kind)); s > specific[kind] {
				specific[kind], q[kind] = s, quality
			} else if s > 0 && s == specific[kind] {
				q[kind] = max(q[kind], quality)
			}
		}
	}
	best := bodyProblem
	for kind := range q {
		if q[kind] > q[best] {
			best = bodyKind(kind)
		}
	}
	return best
}

// rangeCoverage returns how specifically a media range covers a form: 3 by name, 2 by "type/*", 1 by "*/*", or 0 if it
// does not cover it.
func rangeCoverage(mediaRange string, kind bodyKind) int {
	names := [...]string{bodyProblem: "application/problem+json", bodyHTML: "text/html", bodyText: "text/plain"}
	group := [...]string{bodyProblem: "application/*", bodyHTML: "text/*", bodyText: "text/*"}
	switch {
	case strings.EqualFold(mediaRange, names[kind]),
		kind == bodyProblem && strings.EqualFold(mediaRange, "application/json"):
		return 3
	case strings.EqualFold(mediaRange, group[kind]):
		return 2
	case mediaRange == "*/*":
		return 1
	}
	return 0
}

// qualityOf returns the q of a media range in thousandths: 1000 if it has no q, 0 if its q is malformed.
func qualityOf(params string) int {
	for len(params) > 0 {
		var param string
		param, params = CutOutsideQuotes(params, ';')
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			return parseQuality(strings.TrimSpace(value))
		}
	}
	return 1000
}

// parseQuality parses a qvalue: "0" or "1" with up to three decimals. It returns 0 if s is malformed or above 1.
func parseQuality(s string) int {
	q, err := strconv.ParseFloat(s, 64)
	if err != nil || q > 1 || s[0] != '0' && s[0] != '1' || len(s) > len("0.000") ||
		strings.Trim(s, "0123456789.") != "" {
		return 0
	}
	return int(math.Round(q * 1000))
}

// CutOutsideQuotes is like strings.Cut at a byte outside quoted strings.
func CutOutsideQuotes(s string, at byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == at && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
