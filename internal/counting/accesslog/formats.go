package accesslog

import (
	"fmt"
	"slices"
	"strings"
)

// form is one row of the table of formats.
type form struct {
	name Format
	// layout is the form of a line as nginx writes one in log_format, or "" if parse reads it.
	layout string
	parse  func(p *Parser, line string, e *Entry) error
}

// forms is the table of formats, in the order in which they are tried.
var forms = []form{
	{name: Combined, parse: func(_ *Parser, line string, e *Entry) error { return parseCombined(line, e) }},
	{name: Events, parse: func(_ *Parser, line string, e *Entry) error { return parseEvent(line, e) }},
	{name: JSONL, parse: func(_ *Parser, line string, e *Entry) error { return parseJSON(line, e) }},
	{name: JSON, parse: (*Parser).parseObject},
	{name: Envoy, layout: `[$time_iso8601] "$request" $status $_ $_ $_ $_ $_ "$http_x_forwarded_for" ` +
		`"$http_user_agent" "$_" "$host" "$_"`},
	{name: HAProxy, layout: `$client_port [$time_local] $_ $_ $_ $status $_ "$request"`},
	{name: ALB, layout: `$_ $time_iso8601 $_ $client_port $_ $_ $_ $_ $status $_ $_ $_ "$request" "$http_user_agent"`},
	{name: CloudFront, parse: func(p *Parser, line string, e *Entry) error { return p.parseW3C(line, "\t", e) }},
	{name: IIS, parse: func(p *Parser, line string, e *Entry) error { return p.parseW3C(line, " ", e) }},
}

// Further formats.
const (
	// JSON is one object a line with the fields of nginx, Caddy, Traefik, Envoy, Google Cloud or ECS, or with fields
	// that Custom names.
	JSON Format = "json"
	// Envoy is the default format of Envoy and Istio.
	Envoy Format = "envoy"
	// HAProxy is the format of HAProxy's option httplog.
	HAProxy Format = "haproxy"
	// ALB is the format of the application load balancer of AWS.
	ALB Format = "alb"
	// CloudFront and IIS are W3C extended logs, whose fields are named by a line with #Fields.
	CloudFront Format = "cloudfront"
	IIS        Format = "iis"
)

// Names returns the names of the formats.
func Names() (all []string) {
	for _, f := range forms {
		all = append(all, string(f.name))
	}
	return all
}

const custom = "log_format:"

// Custom returns the format that a text describes: a log_format of nginx, such as '$remote_addr "$request" $status
// $msec', or for JSON lines json: and fields, such as json:time=ts,client=ip,target=url.
func Custom(text string) (Format, error) {
	f := Format(custom + text)
	_, err := f.Parser()
	return f, err
}

// Parser parses the lines of one log. It remembers the #Fields of the log. It is not safe for concurrent use.
type Parser struct {
	parse  func(p *Parser, line string, e *Entry) error
	layout layout
	fields []string          // of a W3C log
	named  map[string]string // fields of JSON lines by their role, of Custom
	found  [jsonRoles]string // the field of each role in the previous line
}

// Parser returns a parser for the lines of one log.
func (f Format) Parser() (*Parser, error) {
	if text, ok := strings.CutPrefix(string(f), custom); ok {
		return newCustomParser(text)
	}
	i := slices.IndexFunc(forms, func(row form) bool { return row.name == f })
	if i < 0 {
		return nil, &Error{Reason: "format must be one of " + strings.Join(Names(), ", "), Value: string(f)}
	}
	if forms[i].layout == "" {
		return &Parser{parse: forms[i].parse}, nil
	}
	return newLayoutParser(forms[i].layout)
}

func newLayoutParser(text string) (*Parser, error) {
	l, err := newLayout(text)
	if err != nil {
		return nil, err
	}
	return &Parser{layout: l, parse: (*Parser).parseByLayout}, nil
}

func newCustomParser(text string) (*Parser, error) {
	fields, ok := strings.CutPrefix(text, "json:")
	if !ok {
		return newLayoutParser(text)
	}
	p := &Parser{parse: (*Parser).parseObject, named: map[string]string{}}
	for pair := range strings.SplitSeq(fields, ",") {
		role, name, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if name == "" || !slices.Contains(roleNames[:], role) {
			return nil, fmt.Errorf("accesslog: %q must be ROLE=FIELD with a role of %s", pair,
				strings.Join(roleNames[:], ", "))
		}
		p.named[role] = name
	}
	return p, nil
}

// Parse parses one line, as [Format.Parse] does. It skips the head that syslog writes before a line.
func (p *Parser) Parse(line string, e *Entry) error {
	*e = Entry{}
	e.Request.Header = &e.header
	if rest, ok := cutSyslog(line); ok {
		line = rest
	}
	return p.parse(p, line, e)
}

// Parse parses one line without its line end into e. It returns ErrSkip for lines without a request, and an *Error for
// broken ones. After an error e must not be used. A log with #Fields needs a [Parser].
func (f Format) Parse(line string, e *Entry) error {
	p, err := f.Parser()
	if err != nil {
		return err
	}
	return p.Parse(line, e)
}

// Detect returns the format of the first lines of a log, with the lines that begin with "#": the format as which most
// of them parse. It returns false if no line parses in any format.
func Detect(lines []string) (Format, bool) {
	best, most, e := Format(""), 0, Entry{}
	for _, row := range forms {
		p, err := row.name.Parser()
		if err != nil {
			continue // a mistake in the table, which its test finds
		}
		n := 0
		for _, l := range lines {
			if p.Parse(l, &e) == nil {
				n++
			}
		}
		if n > most {
			best, most = row.name, n
		}
	}
	return best, most > 0
}

// cutSyslog cuts the head of RFC 3164 or RFC 5424, with or without a priority, from a line.
func cutSyslog(line string) (rest string, ok bool) {
	rest = line
	if rest != "" && rest[0] == '<' {
		i := strings.IndexByte(rest, '>')
		if i < 2 || i > 4 || parseNumber(rest[1:i]) < 0 {
			return line, false
		}
		if rest = rest[i+1:]; strings.HasPrefix(rest, "1 ") {
			return cutStructured(rest[2:])
		}
	}
	switch {
	case len(rest) > 16 && rest[3] == ' ' && rest[6] == ' ' && rest[9] == ':' && rest[12] == ':' && rest[15] == ' ' &&
		monthNumber(rest[:3]) > 0:
		rest = rest[16:]
	case len(rest) > 20 && rest[4] == '-' && rest[10] == 'T' && rest[13] == ':':
		if _, rest, ok = strings.Cut(rest, " "); !ok {
			return line, false
		}
	default:
		return line, false
	}
	// HOST TAG[PID]: MESSAGE. nginx may omit the host.
	head, message, ok := strings.Cut(rest, ": ")
	if !ok || len(head) > 128 || strings.Count(head, " ") > 1 || strings.ContainsAny(head, "\"\t[{") &&
		!strings.HasSuffix(head, "]") {
		return line, false
	}
	return strings.TrimPrefix(strings.TrimLeft(message, " "), "@cee:"), true
}

// cutStructured cuts TIME HOST APP PROCID MSGID and structured data.
func cutStructured(s string) (rest string, ok bool) {
	for range 5 {
		if _, s, ok = strings.Cut(s, " "); !ok {
			return s, false
		}
	}
	for strings.HasPrefix(s, "[") {
		i := 1
		for quoted := false; i < len(s) && (quoted || s[i] != ']'); i++ {
			switch s[i] {
			case '\\':
				i++
			case '"':
				quoted = !quoted
			}
		}
		s = s[min(i+1, len(s)):]
	}
	s = strings.TrimPrefix(s, "-")
	return strings.TrimPrefix(strings.TrimPrefix(s, " "), "\xef\xbb\xbf"), true
}
