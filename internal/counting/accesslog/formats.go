package accesslog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/netset"
)

// form is one row of the table of formats.
type form struct {
	name Format
	// layout is the form of a line as nginx writes one in log_format, or "" if parse reads it.
	layout string
	parse  func(p *Parser, line string, e *Entry) error
	bare   bool // no program writes words before a line
}

// forms is the table of formats, in the order in which they are tried.
var forms = []form{
	{name: Combined, parse: (*Parser).parseCombined},
	{name: Events, bare: true, parse: func(_ *Parser, line string, e *Entry) error { return parseEvent(line, e) }},
	{name: JSONL, parse: func(_ *Parser, line string, e *Entry) error { return parseJSON(line, e) }},
	{name: Denials, parse: func(_ *Parser, line string, e *Entry) error { return parseDenial(line, e) }},
	{name: JSON, parse: (*Parser).parseObject},
	{name: Istio, layout: `[$time_iso8601] "$request" $status $_ $_ $_ "$_" $_ $bytes_sent $duration_ms $upstream_ms ` +
		`"$http_x_forwarded_for" ` +
		`"$http_user_agent" "$_" "$host" "$_" $_ $_ $_ $client_port $_ $_`},
	{name: Envoy, layout: `[$time_iso8601] "$request" $status $_ $_ $bytes_sent $duration_ms $upstream_ms ` +
		`"$http_x_forwarded_for" ` +
		`"$http_user_agent" "$_" "$host" "$_"`},
	{name: HAProxy, layout: `$client_port [$time_local] $_ $_ $timers $status $bytes_sent $_ "$request"`},
	{name: ALB, layout: `$_ $time_iso8601 $_ $client_port $_ $_ $upstream_response_time $_ $status $_ $_ $bytes_sent ` +
		`"$request" "$http_user_agent"`},
	{name: ELB, layout: `$time_iso8601 $_ $client_port $_ $_ $upstream_response_time $_ $status $_ $_ $bytes_sent ` +
		`"$request" "$http_user_agent"`},
	{name: CloudFront, bare: true, parse: func(p *Parser, line string, e *Entry) error {
		return p.parseW3C(line, "\t", e)
	}},
	{name: IIS, bare: true, parse: func(p *Parser, line string, e *Entry) error { return p.parseW3C(line, " ", e) }},
}

// Further formats.
const (
	// JSON is one object a line with the fields of nginx, Caddy, Traefik, Envoy, Google Cloud or ECS, or with fields
	// that Custom names.
	JSON Format = "json"
	// Envoy is the default format of Envoy. Istio is the default format of Istio, which adds the address of the peer.
	Envoy Format = "envoy"
	Istio Format = "istio"
	// HAProxy is the format of HAProxy's option httplog.
	HAProxy Format = "haproxy"
	// ALB and ELB are the formats of the application and of the classic load balancer of AWS.
	ALB Format = "alb"
	ELB Format = "elb"
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
// $msec', or for JSON lines json: and fields, such as json:time=ts,client=ip,target=url, or for W3C logs w3c: and
// columns, such as w3c:client=X-Forwarded-For.
func Custom(text string) (Format, error) {
	f := Format(custom + text)
	_, err := f.Parser()
	return f, err
}

// Parser parses the lines of one log. It remembers the #Fields of the log. It is not safe for concurrent use.
type Parser struct {
	format   Format
	parse    func(p *Parser, line string, e *Entry) error
	wrapping wrapping
	trusted  netset.Set
	layout   layout
	fields   []string          // of a W3C log
	named    map[string]string // fields of JSON lines, or columns of a W3C log, by their role, of Custom
	listed   bool              // the clients of the log are lists of addresses
	loose    bool              // the client of the line is not followed by "-", as it is with every server of today
}

// Format returns the format of the lines.
func (p *Parser) Format() Format { return p.format }

// Parser returns a parser for the lines of one log whose lines are not wrapped; see [Open].
func (f Format) Parser() (*Parser, error) {
	p := &Parser{format: f, trusted: internalTrust}
	if text, ok := strings.CutPrefix(string(f), custom); ok {
		return p, p.setCustom(text)
	}
	row := f.row()
	if row == nil {
		return nil, &Error{Reason: "format must be one of " + strings.Join(Names(), ", "), Value: string(f)}
	}
	if p.parse = row.parse; row.layout != "" {
		return p, p.setLayout(row.layout)
	}
	return p, nil
}

// row returns the row of the format in the table, or nil if there is none.
func (f Format) row() *form {
	i := slices.IndexFunc(forms, func(row form) bool { return row.name == f })
	if i < 0 {
		return nil
	}
	return &forms[i]
}

func (p *Parser) setLayout(text string) (err error) {
	p.layout, err = newLayout(text)
	if p.layout.decode = unescape; p.format == HAProxy {
		p.layout.decode = unescapeHAProxy
	}
	p.parse = (*Parser).parseByLayout
	return err
}

// setCustom sets the form of the lines that Custom describes.
func (p *Parser) setCustom(text string) error {
	fields, ok := strings.CutPrefix(text, "json:")
	if p.parse = (*Parser).parseObject; !ok {
		if fields, ok = strings.CutPrefix(text, "w3c:"); !ok {
			return p.setLayout(text)
		}
		p.parse = func(p *Parser, line string, e *Entry) error { return p.parseW3C(line, sepOf(line), e) }
	}
	p.named = map[string]string{}
	for pair := range strings.SplitSeq(fields, ",") {
		role, name, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if name == "" || !slices.Contains(roleNames[:], role) {
			return fmt.Errorf("accesslog: %q must be ROLE=FIELD with a role of %s", pair,
				strings.Join(roleNames[:], ", "))
		}
		p.named[role] = name
	}
	return nil
}

// Parse parses one line without its line end into e. Before that it removes the log's wrapping and the head that syslog
// writes before a line. It returns ErrSkip for lines without a request, and an *Error for broken ones. After an error e
// must not be used.
func (p *Parser) Parse(line string, e *Entry) error {
	*e = Entry{Costs: NoCosts}
	e.Request.Header = &e.header
	if isBlank(line) {
		return ErrSkip
	}
	line, err := p.wrapping.unwrap(line)
	switch {
	case err != nil:
		return err
	case isBlank(line):
		return ErrSkip
	}
	return p.parse(p, line, e)
}

// Parse parses one line of a log whose lines are not wrapped, as [Parser.Parse] does. A log with #Fields needs a
// [Parser].
func (f Format) Parse(line string, e *Entry) error {
	p, err := f.Parser()
	if err != nil {
		return err
	}
	return p.Parse(line, e)
}
