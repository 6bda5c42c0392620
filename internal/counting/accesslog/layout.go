package accesslog

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// raw holds the parts of a line as they are written, for all formats that name them. target is complete; path and query
// are its parts.
type raw struct {
	time, request, method, target, path, query, status, host, agent, referer string
	origin
	costs  rawCosts
	timers string // of HAProxy
}

// variables maps the variables of nginx to the parts of a line. If a line has several of one part, the first counts.
var variables = map[string]func(*raw) *string{
	"time_local": func(r *raw) *string { return &r.time }, "time_iso8601": func(r *raw) *string { return &r.time },
	"msec":        func(r *raw) *string { return &r.time },
	"remote_addr": func(r *raw) *string { return &r.client }, "client_port": func(r *raw) *string { return &r.client },
	"realip_remote_addr":        func(r *raw) *string { return &r.client },
	"http_x_forwarded_for":      func(r *raw) *string { return &r.forwarded },
	"proxy_add_x_forwarded_for": func(r *raw) *string { return &r.forwarded },
	"request":                   func(r *raw) *string { return &r.request },
	"request_method":            func(r *raw) *string { return &r.method },
	"request_uri":               func(r *raw) *string { return &r.target }, "uri": func(r *raw) *string { return &r.path },
	"document_uri": func(r *raw) *string { return &r.path }, "args": func(r *raw) *string { return &r.query },
	"query_string": func(r *raw) *string { return &r.query }, "status": func(r *raw) *string { return &r.status },
	"host": func(r *raw) *string { return &r.host }, "http_host": func(r *raw) *string { return &r.host },
	"http_user_agent": func(r *raw) *string { return &r.agent },
	"http_referer":    func(r *raw) *string { return &r.referer },
	// Costs. The time until the response begins, if a line has it, is nearer to the work of the upstream.
	"upstream_header_time":   func(r *raw) *string { return &r.costs.upstream },
	"upstream_response_time": func(r *raw) *string { return &r.costs.upstream },
	"request_time":           func(r *raw) *string { return &r.costs.seconds },
	"body_bytes_sent":        func(r *raw) *string { return &r.costs.bytes },
	"bytes_sent":             func(r *raw) *string { return &r.costs.bytes },
	"upstream_http_x_cost":   func(r *raw) *string { return &r.costs.field },
	"sent_http_x_cost":       func(r *raw) *string { return &r.costs.field },
	// Values that nginx does not have.
	"upstream_ms": func(r *raw) *string { return &r.costs.upstreamMS },
	"duration_ms": func(r *raw) *string { return &r.costs.ms },
	"timers":      func(r *raw) *string { return &r.timers },
}

type piece struct {
	before  string // the text before the value
	name    string
	missing string // the reason for a line without this piece
	part    func(*raw) *string
}

// layout is a log_format of nginx.
type layout struct {
	pieces []piece
	after  string
	decode func(string) string // undoes the escapes of the server
	ported bool                // the client always has a port
}

var (
	variable = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)
	quotes   = regexp.MustCompile(`'([^']*)'`)
)

// slashed are variables whose values begin with a slash, so that they may follow another variable at once.
var slashed = map[string]bool{"request_uri": true, "uri": true, "document_uri": true}

// newLayout parses a log_format, or the whole directive with its quotes.
func newLayout(text string) (l layout, err error) {
	if directive := strings.TrimSpace(text); strings.HasPrefix(directive, "log_format ") {
		text = ""
		for _, m := range quotes.FindAllStringSubmatch(directive, -1) {
			text += m[1]
		}
	}
	text = strings.ReplaceAll(text, "$uri$is_args$args", "$request_uri")
	at, has := 0, map[string]bool{}
	for _, m := range variable.FindAllStringSubmatchIndex(text, -1) {
		name := ""
		for _, group := range [...]int{2, 4} {
			if m[group] >= 0 {
				name = text[m[group]:m[group+1]]
			}
		}
		before := text[at:m[0]]
		if before == "" && at > 0 && !slashed[name] {
			return l, fmt.Errorf("accesslog: log_format %q: nothing separates $%s from the variable before it", text, name)
		}
		must := fmt.Sprintf("%q and $%s must follow", before, name)
		l.pieces = append(l.pieces, piece{before, name, must, variables[name]})
		l.ported = l.ported || name == "client_port"
		has[name], at = true, m[1]
	}
	l.after = text[at:]
	switch {
	case !has["time_local"] && !has["time_iso8601"] && !has["msec"]:
		return l, fmt.Errorf("accesslog: log_format %q: add $time_local, $time_iso8601 or $msec", text)
	case !has["request"] && !has["request_uri"] && !has["uri"]:
		return l, fmt.Errorf("accesslog: log_format %q: add $request or $request_uri", text)
	}
	return l, nil
}

func (p *Parser) parseByLayout(line string, e *Entry) error {
	var r raw
	rest := line
	for i := range p.layout.pieces {
		piece, after := &p.layout.pieces[i], p.layout.after
		if i+1 < len(p.layout.pieces) {
			if after = p.layout.pieces[i+1].before; after == "" {
				after = "/"
			}
		}
		var value string
		ok := strings.HasPrefix(rest, piece.before)
		if ok {
			value, rest, ok = cutValue(rest[len(piece.before):], after, strings.HasSuffix(piece.before, `"`))
		}
		if !ok {
			return &Error{piece.missing, rest}
		}
		if piece.part != nil && value != "" {
			if field := piece.part(&r); *field == "" || *field == "-" {
				*field = value
			}
		}
	}
	r.hasPort = p.layout.ported
	return p.fill(e, &r, p.layout.decode)
}

// cutValue cuts the value before the text after. In quotes an escaped quote does not end it.
func cutValue(s, after string, quoted bool) (value, rest string, ok bool) {
	if after == "" {
		return s, "", true
	}
	for at := 0; ; at++ {
		i := strings.Index(s[at:], after)
		if quoted && after[0] == '"' {
			if i = closingQuote(s[at:]); i >= 0 && !strings.HasPrefix(s[at+i:], after) {
				at += i
				continue
			}
		}
		if i < 0 {
			return "", s, false
		}
		return s[:at+i], s[at+i:], true
	}
}

// fill sets the entry from the parts of a line. decode undoes the escapes of the server.
func (p *Parser) fill(e *Entry, r *raw, decode func(string) string) error {
	var ok bool
	if e.Second, e.Nanos, ok = parseAnyTime(r.time); !ok {
		return &Error{"time must be unix seconds, RFC 3339 or dd/Mon/yyyy:hh:mm:ss", r.time}
	}
	if err := e.setTarget(r, decode); err != nil {
		return err
	}
	e.Request.Host = trimPort(emptyIfDash(r.host))
	e.setRelativeTarget()
	e.Status = max(parseNumber(strings.TrimSpace(r.status)), 0)
	if e.Status > 999 {
		e.Status = 0
	}
	r.costs.setTimers(r.timers)
	e.Costs = r.costs.parse(e.Status)
	e.header = Header{UserAgent: emptyIfDash(decode(r.agent)), Referer: emptyIfDash(decode(r.referer))}
	return p.setClient(e, &r.origin)
}

// setTarget sets method and target: of the request line, or else of the complete target, or else of path and query.
func (e *Entry) setTarget(r *raw, decode func(string) string) error {
	if emptyIfDash(r.request) != "" && r.request[0] != '/' {
		return parseRequest(r.request, &e.Request, decode)
	}
	target := cmp.Or(emptyIfDash(r.request), emptyIfDash(r.target))
	if target == "" {
		target = emptyIfDash(r.path)
		query := strings.TrimPrefix(strings.TrimSpace(emptyIfDash(r.query)), "?")
		if target != "" && query != "" && !strings.Contains(target, "?") {
			target += "?" + query
		}
	}
	switch {
	case r.method == "-" || r.request == "-" || target == "":
		return &Error{errNoRequest, r.method + " " + r.target + r.path}
	case r.method != "" && !isToken(r.method):
		return &Error{"method must be a word", r.method}
	case target[0] != '/' && target != "*" && r.method != "CONNECT" && !strings.Contains(target, "://"):
		return &Error{"target must be a path", target}
	}
	e.Request.Method, e.Request.Target = cmp.Or(r.method, "GET"), decode(target)
	return nil
}

// setRelativeTarget converts the target from a URL, as balancers write it, to a path.
func (e *Entry) setRelativeTarget() {
	scheme, rest, ok := strings.Cut(e.Request.Target, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#") {
		return
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		rest, end = rest+"/", len(rest)
	}
	if e.Request.Host == "" {
		e.Request.Host = trimPort(rest[:end])
	}
	if e.Request.Target = rest[end:]; rest[end] == '?' {
		e.Request.Target = "/" + rest[end:]
	}
}

// parseAnyTime parses unix seconds, milliseconds, microseconds or nanoseconds, RFC 3339, W3C, the wall time of Caddy
// and the time of Apache. A time without a zone is UTC.
func parseAnyTime(s string) (second int64, nanos int32, ok bool) {
	if second, nanos, ok = parseUnix(s); ok && second < 100_000_000_000 {
		return second, nanos, true
	}
	if len(s) >= 20 && s[2] == '/' {
		if len(s) == 20 || s[20] == '.' && !strings.Contains(s, " ") {
			s += " +0000"
		}
		return parseCLF(s)
	}
	if whole, _, _ := strings.Cut(s, "."); parseNumber(whole) > 0 && len(whole) >= 12 && len(whole) <= 19 {
		n, unit := int64(parseNumber(whole)), int64(1000)
		for n/unit >= 100_000_000_000 {
			unit *= 1000
		}
		return n / unit, int32(n % unit * (1_000_000_000 / unit)), true
	}
	for _, form := range [...]string{time.RFC3339Nano, "2006/01/02 15:04:05", "2006-01-02T15:04:05.999999999Z0700",
		"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(form, s); err == nil {
			return t.Unix(), int32(t.Nanosecond()), t.Unix() > 0 && t.Unix() <= maxSecond
		}
	}
	return 0, 0, false
}
