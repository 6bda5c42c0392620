package accesslog

import (
	"net/netip"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// parseCombined reads
//
//	[vhost ]client ident user [time] "request" status bytes[ "referer" "agent"[ "forwarded"]]
//
// The user may contain any byte but a quote (nginx logs the name that a client claims, unchecked). Therefore the line
// is cut at the first `] "`, which no client can write if quotes are escaped, and the time is searched backwards from
// there. The client is the first field; words before it, such as a virtual host, belong to the wrapping.
func (p *Parser) parseCombined(line string, e *Entry) error {
	from := 0
	if strings.HasPrefix(line, `"`) { // a quoted list of addresses
		from = 1 + max(0, closingQuote(line[1:]))
	}
	cut := strings.Index(line[from:], `] "`)
	if cut < 0 {
		return &Error{"line must hold [time] \"request\"", line}
	}
	cut += from
	open := strings.LastIndexByte(line[:cut], '[')
	if open < 1 {
		return &Error{"line must hold client and [time]", line}
	}
	if !e.setBracketTime(line[open+1 : cut]) {
		return &Error{"time must be dd/Mon/yyyy:hh:mm:ss +hhmm", line[open+1 : cut]}
	}
	who, ok := p.cutOrigin(line[:open])
	if !ok {
		return &Error{"line must begin with client, ident and user", line[:open]}
	}
	request, status, rest, ok := cutRequest(line[cut+3:])
	if !ok {
		return &Error{"request must be quoted and followed by a status", line[cut+3:]}
	}
	if err := parseRequest(request, &e.Request, unescape); err != nil {
		return err
	}
	e.Status = max(parseNumber(status), 0) // "-" stands for no status
	if size, _, _ := strings.Cut(rest, " "); e.Status != statusDenied {
		e.Costs.Bytes = parseSize(size)
	}
	forwarded := parseReferrer(rest, &e.header)
	if who.forwarded == "" {
		who.forwarded = forwarded
	}
	e.Request.Host = p.wrapping.host
	return p.setClient(e, &who)
}

// setBracketTime sets the time of Apache, or a time in RFC 3339 in its place.
func (e *Entry) setBracketTime(s string) (ok bool) {
	if e.Second, e.Nanos, ok = parseCLF(s); !ok && len(s) > 4 && s[4] == '-' {
		e.Second, e.Nanos, ok = parseAnyTime(s)
	}
	return ok
}

// cutOrigin reads the part of a line from the client to the time. It reads nothing to the right of the client's own
// fields, because a client can choose its user name.
func (p *Parser) cutOrigin(s string) (o origin, ok bool) {
	client, rest, ok := p.cutClient(s)
	if !ok {
		return o, false
	}
	if o.client = client; p.wrapping.forwarded {
		// X-Forwarded-For, then the peer
		if o.client, rest, ok = strings.Cut(rest, " "); !ok || o.client == "-" || !isAddress(o.client) {
			return o, false
		}
		if o.forwarded = client; client != "-" && !isAddressList(client) {
			return o, false
		}
	}
	ident, user, _ := strings.Cut(rest, " ")
	if p.loose = ident != "-"; !p.loose {
		o.names = hostNames
	}
	return o, ident != "" && (!p.wrapping.forwarded || user != "")
}

// cutClient cuts the client from the beginning of s: a word, or a list of addresses, which Apache may write in quotes.
// After the first list the log is known to have X-Forwarded-For as its first field. Then all of a line up to its last
// comma is the list, because a proxy wrote the text behind the last comma and a client may have written the rest.
func (p *Parser) cutClient(s string) (client, rest string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		client, rest = cutQuoted(s[1:])
		return client, strings.TrimPrefix(rest, " "), client != "" && strings.HasPrefix(rest, " ")
	}
	client, rest, ok = strings.Cut(s, " ")
	if p.listed = p.listed || strings.HasSuffix(client, ","); p.listed {
		if comma := strings.LastIndexByte(s, ','); comma > 0 {
			last := strings.TrimLeft(s[comma+1:], " ")
			last, rest, ok = strings.Cut(last, " ")
			client = s[:comma] + "," + last
		}
	}
	return client, rest, ok && client != ""
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

// errNoRequest is the reason for lines of connections that sent no request.
const errNoRequest = "line has no request"

// parseRequest parses `METHOD target HTTP/1.1`, or without the protocol, as servers log HTTP/0.9. Spaces inside the
// target are kept, because the server that wrote the line accepted them. decode undoes the escapes of the server.
func parseRequest(s string, r *hottype.Request, decode func(string) string) error {
	method, target, ok := strings.Cut(s, " ")
	if method == "-" || s == "" {
		return &Error{errNoRequest, s}
	}
	if !ok || !isToken(method) {
		return &Error{"request must be METHOD target PROTOCOL", s}
	}
	i := strings.LastIndexByte(target, ' ')
	if i >= 0 && strings.HasPrefix(target[i+1:], "HTTP/") {
		target = target[:i]
	} else if target != "" && target[0] != '/' && !strings.Contains(target, "://") {
		return &Error{"request without a protocol must have a path", s}
	}
	if target == "" || target == "-" {
		return &Error{"request must have a target", s}
	}
	r.Method, r.Target = method, decode(target)
	return nil
}

// parseReferrer parses ` bytes "referer" "agent"` and returns the quoted field that follows, which is X-Forwarded-For
// in the format main of nginx. It never returns an error, because the common format ends after the bytes, and a line
// that was cut off in the agent still contains its request.
func parseReferrer(s string, h *Header) (forwarded string) {
	i := strings.IndexByte(s, '"')
	if i < 0 {
		return ""
	}
	referer, rest := cutQuoted(s[i+1:])
	h.Referer = emptyIfDash(unescape(referer))
	if strings.HasPrefix(rest, ` "`) {
		var agent string
		agent, rest = cutQuoted(rest[2:])
		h.UserAgent = emptyIfDash(unescape(agent))
	}
	if strings.HasPrefix(rest, ` "`) {
		forwarded, _ = cutQuoted(rest[2:])
	}
	return forwarded
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
