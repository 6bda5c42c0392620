package httplimit

import "strings"

// bodyKind is a form that the body of a refusal can have.
type bodyKind int

// The forms, preferred first: where a client likes several equally, the first of them is sent.
const (
	bodyProblem bodyKind = iota
	bodyHTML
	bodyText
)

// bodyFor chooses the form that an Accept field likes best (RFC 9110, section 12.5.1): for each form the most specific
// range that covers it says its quality. A client that accepts none of them gets the problem document: a refusal is
// better read in a wrong form than not at all. Parameters other than q are ignored.
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
			if s := coverage(strings.TrimSpace(name), bodyKind(kind)); s > specific[kind] {
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

// coverage says how specifically a media range covers a form: 3 by name, 2 by "type/*", 1 by "*/*", 0 not at all.
func coverage(mediaRange string, kind bodyKind) int {
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

// qualityOf reads the q of a media range in thousandths: 1000 where there is none, 0 where it cannot be read.
func qualityOf(params string) int {
	for len(params) > 0 {
		var param string
		param, params = CutOutsideQuotes(params, ';')
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			return thousandths(strings.TrimSpace(value))
		}
	}
	return 1000
}

// thousandths reads a qvalue: "0" or "1" with up to three decimals, 0 where it is none or above 1.
func thousandths(s string) int {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return 0
	}
	n := int(whole[0] - '0')
	for i := range 3 {
		digit := byte('0')
		if i < len(decimals) {
			digit = decimals[i]
		}
		if digit < '0' || digit > '9' {
			return 0
		}
		n = n*10 + int(digit-'0')
	}
	if n > 1000 {
		return 0
	}
	return n
}

// CutOutsideQuotes is strings.Cut at a byte outside quoted strings.
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
