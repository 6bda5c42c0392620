package accesslog

import (
	"net/netip"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// parseCombined reads
//
//	[vhost ]client ident user [time] "request" status bytes[ "referer" "agent"]
//
// The user may contain any byte but a quote (nginx logs the name that a client claims, unchecked). Therefore the line
// is cut at the first `] "`, which no client can write if quotes are escaped, and the time is searched backwards from
// there.
func parseCombined(line string, e *Entry) error {
	cut := strings.Index(line, `] "`)
	if cut < 0 {
		return &Error{"line must hold [time] \"request\"", line}
	}
	open := strings.LastIndexByte(line[:cut], '[')
	if open < 1 {
		return &Error{"line must hold client and [time]", line}
	}
	var ok bool
	if e.Second, e.Nanos, ok = parseCLF(line[open+1 : cut]); !ok {
		return &Error{"time must be dd/Mon/yyyy:hh:mm:ss +hhmm", line[open+1 : cut]}
	}
	if !parseWho(line[:open], &e.Request) {
		return &Error{"line must begin with client, ident and user", line[:open]}
	}
	request, status, rest, ok := cutRequest(line[cut+3:])
	if !ok {
		return &Error{"request must be quoted and followed by a status", line[cut+3:]}
	}
	if err := parseRequest(request, &e.Request); err != nil {
		return err
	}
	e.Status = max(parseNumber(status), 0) // "-" stands for no status
	parseReferrer(rest, &e.header)
	return nil
}

// parseWho reads the part of a line before the time. A virtual host in front is recognised by "-" as the third field
// ("host client - user"), because the second field of a line without one is "-" with every server of today.
func parseWho(s string, r *hottype.Request) bool {
	first, rest, ok := strings.Cut(s, " ")
	if !ok || first == "" {
		return false
	}
	second, rest, ok := strings.Cut(rest, " ")
	if !ok || second == "" {
		return false
	}
	third, rest, _ := strings.Cut(rest, " ")
	if third == "-" && second != "-" && rest != "" {
		r.Host, first = trimPort(first), second
	}
	r.Client = parseClient(first)
	return true
}

// trimPort removes the port that Apache's vhost_combined always writes, because hosts are matched without one.
func trimPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > 0 && parseNumber(host[i+1:]) >= 0 {
		if _, err := netip.ParseAddr(host); err != nil {
			return host[:i]
		}
	}
	return host
}

// cutRequest finds the quote that ends the request: a quote that is not escaped and is followed by a status. Servers of
// the last century did not escape the quotes of the request; the status distinguishes these from the closing one.
func cutRequest(s string) (request, status, rest string, ok bool) {
	for i := 0; i < len(s); {
		j := closingQuote(s[i:])
		if j < 0 {
			return "", "", "", false
		}
		i += j
		if status, rest, ok := cutStatus(s[i+1:]); ok {
			return s[:i], status, rest, true
		}
		i++
	}
	return "", "", "", false
}

// cutStatus cuts a space and a status, or "-" for no status, from the front of s.
func cutStatus(s string) (status, rest string, ok bool) {
	if len(s) < 2 || s[0] != ' ' {
		return "", "", false
	}
	status, rest, _ = strings.Cut(s[1:], " ")
	return status, rest, status == "-" || len(status) == 3 && parseNumber(status) >= 0
}

// closingQuote returns the index of the first quote that is not escaped, or -1 if there is none.
func closingQuote(s string) int {
	for i := 0; ; i++ {
		j := strings.IndexByte(s[i:], '"')
		if j < 0 {
			return -1
		}
		i += j
		back := i
		for back > 0 && s[back-1] == '\\' {
			back--
		}
		if (i-back)%2 == 0 {
			return i
		}
	}
}

// parseRequest parses `METHOD target HTTP/1.1`, or without the protocol, as servers log HTTP/0.9. Spaces inside the
// target are kept, because the server that wrote the line accepted them.
func parseRequest(s string, r *hottype.Request) error {
	method, target, ok := strings.Cut(s, " ")
	if !ok || !isToken(method) {
		return &Error{"request must be METHOD target PROTOCOL", s}
	}
	i := strings.LastIndexByte(target, ' ')
	if i >= 0 && strings.HasPrefix(target[i+1:], "HTTP/") {
		target = target[:i]
	} else if target != "" && target[0] != '/' && !strings.Contains(target, "://") {
		return &Error{"request without a protocol must have a path", s}
	}
	if target == "" {
		return &Error{"request must have a target", s}
	}
	r.Method, r.Target = method, unescape(target)
	return nil
}

// parseReferrer parses ` bytes "referer" "agent"`. It never returns an error, because the common format ends after the
// bytes, and a line that was cut off in the agent still contains its request.
func parseReferrer(s string, h *Header) {
	i := strings.IndexByte(s, '"')
	if i < 0 {
		return
	}
	referer, rest := cutQuoted(s[i+1:])
	h.Referer = emptyIfDash(unescape(referer))
	if strings.HasPrefix(rest, ` "`) {
		agent, _ := cutQuoted(rest[2:])
		h.UserAgent = emptyIfDash(unescape(agent))
	}
}

// cutQuoted cuts s at its closing quote; without one, all of s is the value.
func cutQuoted(s string) (value, rest string) {
	if i := closingQuote(s); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// emptyIfDash converts "-", which stands for an absent header, to "".
func emptyIfDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

func isToken(s string) bool { return len(s) <= 64 && httpguts.ValidHeaderFieldName(s) }
