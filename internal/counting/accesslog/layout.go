package accesslog

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// raw holds the parts of a line as they are written, for all formats that name them.
type raw struct {
	time, client, request, method, target, path, query, status, host, agent, referer string
}

// variables maps the variables of nginx to the parts of a line. If a line has several of one part, the first counts.
var variables = map[string]func(*raw) *string{
	"time_local": func(r *raw) *string { return &r.time }, "time_iso8601": func(r *raw) *string { return &r.time },
	"msec":        func(r *raw) *string { return &r.time },
	"remote_addr": func(r *raw) *string { return &r.client }, "client_port": func(r *raw) *string { return &r.client },
	"realip_remote_addr":   func(r *raw) *string { return &r.client },
	"http_x_forwarded_for": func(r *raw) *string { return &r.client },
	"request":              func(r *raw) *string { return &r.request },
	"request_method":       func(r *raw) *string { return &r.method },
	"request_uri":          func(r *raw) *string { return &r.target }, "uri": func(r *raw) *string { return &r.path },
	"document_uri": func(r *raw) *string { return &r.path }, "args": func(r *raw) *string { return &r.query },
	"query_string": func(r *raw) *string { return &r.query }, "status": func(r *raw) *string { return &r.status },
	"host": func(r *raw) *string { return &r.host }, "http_host": func(r *raw) *string { return &r.host },
	"http_user_agent": func(r *raw) *string { return &r.agent },
	"http_referer":    func(r *raw) *string { return &r.referer },
}

type piece struct {
	before string // the text before the value
	name   string
}

// layout is a log_format of nginx.
type layout struct {
	pieces []piece
	after  string
}

var (
	variable = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)
	quotes   = regexp.MustCompile(`'([^']*)'`)
)

// newLayout parses a log_format, or the whole directive with its quotes.
func newLayout(text string) (l layout, err error) {
	if directive := strings.TrimSpace(text); strings.HasPrefix(directive, "log_format ") {
		text = ""
		for _, m := range quotes.FindAllStringSubmatch(directive, -1) {
			text += m[1]
		}
	}
	at, has := 0, map[string]bool{}
	for _, m := range variable.FindAllStringSubmatchIndex(text, -1) {
		name := ""
		for _, group := range [...]int{2, 4} {
			if m[group] >= 0 {
				name = text[m[group]:m[group+1]]
			}
		}
		if m[0] == at && at > 0 {
			return l, fmt.Errorf("accesslog: log_format %q: nothing separates $%s from the variable before it", text, name)
		}
		l.pieces = append(l.pieces, piece{text[at:m[0]], name})
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
	if isBlank(line) {
		return ErrSkip
	}
	var r raw
	rest := line
	for i, piece := range p.layout.pieces {
		after := p.layout.after
		if i+1 < len(p.layout.pieces) {
			after = p.layout.pieces[i+1].before
		}
		var value string
		ok := strings.HasPrefix(rest, piece.before)
		if ok {
			value, rest, ok = cutValue(rest[len(piece.before):], after, strings.HasSuffix(piece.before, `"`))
		}
		if !ok {
			return &Error{fmt.Sprintf("%q and $%s must follow", piece.before, piece.name), rest}
		}
		if to := variables[piece.name]; to != nil && emptyIfDash(value) != "" {
			if field := to(&r); *field == "" {
				*field = value
			}
		}
	}
	return e.fill(&r)
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

// fill sets the entry from the parts of a line.
func (e *Entry) fill(r *raw) error {
	var ok bool
	if e.Second, e.Nanos, ok = parseAnyTime(r.time); !ok {
		return &Error{"time must be unix seconds, RFC 3339 or dd/Mon/yyyy:hh:mm:ss", r.time}
	}
	if r.target == "" && r.path != "" {
		if r.target = r.path; emptyIfDash(r.query) != "" && !strings.Contains(r.path, "?") {
			r.target += "?" + strings.TrimPrefix(r.query, "?")
		}
	}
	switch {
	case r.request != "" && r.target == "":
		if err := parseRequest(r.request, &e.Request); err != nil {
			return err
		}
	case r.method != "" && !isToken(r.method):
		return &Error{"method must be a word", r.method}
	case r.target == "":
		return &Error{"line must have a target", r.target}
	default:
		if e.Request.Method, e.Request.Target = r.method, r.target; r.method == "" {
			e.Request.Method = "GET"
		}
	}
	e.Request.Host = trimPort(emptyIfDash(r.host))
	e.setRelativeTarget()
	e.Request.Client = parseClient(firstAddress(r.client))
	e.Status = max(parseNumber(strings.TrimSpace(r.status)), 0)
	if e.Status > 999 {
		e.Status = 0
	}
	e.header = Header{UserAgent: emptyIfDash(r.agent), Referer: emptyIfDash(r.referer)}
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

// firstAddress returns the first of a list of addresses, without a port.
func firstAddress(s string) string {
	s, _, _ = strings.Cut(s, ",")
	if s = strings.TrimSpace(s); s == "" {
		return "-"
	}
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr().String()
	}
	if i := strings.LastIndexByte(s, ':'); i > 0 && parseNumber(s[i+1:]) >= 0 {
		if _, err := netip.ParseAddr(s[:i]); err == nil {
			if _, err := netip.ParseAddr(s); err != nil {
				return s[:i] // an IPv6 address without brackets
			}
		}
	}
	return s
}

// parseAnyTime parses unix seconds, milliseconds, microseconds or nanoseconds, RFC 3339, W3C and the time of Apache. A
// time without a zone is UTC.
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
	for _, form := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700",
		"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(form, s); err == nil {
			return t.Unix(), int32(t.Nanosecond()), t.Unix() > 0 && t.Unix() <= maxSecond
		}
	}
	return 0, 0, false
}

// The fields of a W3C log without #Fields.
var (
	cloudFrontFields = strings.Fields("date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status " +
		"cs(Referer) cs(User-Agent) cs-uri-query")
	iisFields = strings.Fields("date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip " +
		"cs(User-Agent) cs(Referer) sc-status")
)

// parseW3C parses a line of a W3C extended log, whose fields are separated by sep.
func (p *Parser) parseW3C(line, sep string, e *Entry) error {
	if isBlank(line) || line[0] == '#' {
		if fields, ok := strings.CutPrefix(line, "#Fields:"); ok {
			p.fields = strings.Fields(fields)
		}
		return ErrSkip
	}
	fields := p.fields
	if fields == nil {
		if fields = iisFields; sep == "\t" {
			fields = cloudFrontFields
		}
	}
	values := strings.Split(line, sep)
	if len(values) < min(len(fields), 8) {
		return &Error{"line must have the fields of a W3C log: " + strings.Join(fields, " "), line}
	}
	var r raw
	day, clock, edge := "", "", ""
	to := map[string]*string{
		"date": &day, "time": &clock, "c-ip": &r.client, "cs-method": &r.method, "cs-uri-stem": &r.path,
		"cs-uri-query": &r.query, "sc-status": &r.status, "cs(User-Agent)": &r.agent, "cs(Referer)": &r.referer,
		"cs(Referrer)": &r.referer,
		"cs-host":      &r.host, "cs(Host)": &edge, "x-host-header": &r.host,
	}
	for i, name := range fields[:min(len(fields), len(values))] {
		if field := to[name]; field != nil {
			*field = emptyIfDash(values[i])
		}
	}
	if r.host == "" {
		r.host = edge
	}
	r.time = day + " " + clock
	if agent, err := url.QueryUnescape(r.agent); err == nil { // spaces are + or %20
		r.agent = agent
	}
	return e.fill(&r)
}
