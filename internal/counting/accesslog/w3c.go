package accesslog

import (
	"net/url"
	"strings"
)

// The fields of a W3C log without #Fields.
var (
	cloudFrontFields = strings.Fields("date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status " +
		"cs(Referer) cs(User-Agent) cs-uri-query")
	iisFields = strings.Fields("date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip " +
		"cs(User-Agent) cs(Referer) sc-status")
)

// columns maps the columns of a W3C log to the roles of their values. Of two columns of one role the first counts.
var columns = map[string]int{
	"c-ip": roleClient, "cs-method": roleMethod, "cs-uri-stem": rolePath, "cs-uri-query": roleQuery,
	"sc-status": roleStatus, "cs(User-Agent)": roleAgent, "cs(Referer)": roleReferer, "cs(Referrer)": roleReferer,
	"x-host-header": roleHost, "cs-host": roleHost, "cs(Host)": roleHost,
	"sc-bytes": roleBytes, "time-taken": roleMS,
}

// parseW3C parses a line of a W3C extended log, whose fields are separated by sep. A column that Custom names replaces
// the usual columns of its role.
func (p *Parser) parseW3C(line, sep string, e *Entry) error {
	if line[0] == '#' {
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
	values := splitFields(line, sep, len(fields))
	if len(values) < min(len(fields), 8) {
		return &Error{"line must have the fields of a W3C log: " + strings.Join(fields, " "), line}
	}
	var r raw
	var edge string
	day, clock := "", ""
	parts := r.parts()
	for i, name := range fields[:min(len(fields), len(values))] {
		switch role, ok := p.roleOf(name); {
		case name == "date":
			day = values[i]
		case name == "time":
			clock = values[i]
		case name == "cs(Host)" && ok:
			edge = emptyIfDash(values[i]) // of a CDN; x-host-header has the host that the client requested
		case ok && emptyIfDash(*parts[role]) == "":
			*parts[role] = values[i]
		}
	}
	if emptyIfDash(r.host) == "" {
		r.host = edge
	}
	if sep == "\t" { // CloudFront writes time-taken in seconds
		r.costs.seconds, r.costs.ms = r.costs.ms, ""
	}
	if r.time == "" {
		r.time = day + " " + clock
	}
	if p.named[roleNames[roleClient]] != "" {
		r.names = anyNames
	}
	r.client = strings.ReplaceAll(r.client, "+", " ")         // IIS writes spaces as +
	if agent, err := url.QueryUnescape(r.agent); err == nil { // spaces are + or %20
		r.agent = agent
	}
	return p.fill(e, &r, keep)
}

// roleOf returns the role of a column.
func (p *Parser) roleOf(column string) (role int, ok bool) {
	for role, name := range roleNames {
		if named := p.named[name]; named != "" && strings.EqualFold(named, column) {
			return role, true
		}
	}
	role, ok = columns[column]
	return role, ok && !p.isReplaced(role)
}

// splitFields splits a line into n fields. IIS advanced logging has spaces in fields, which are in quotes then; a quote
// means nothing in a line that has n fields anyway.
func splitFields(line, sep string, n int) []string {
	values := strings.Split(line, sep)
	if len(values) == n || sep != " " {
		return values
	}
	values = values[:0]
	for rest, more := line, true; more; {
		var value string
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			if end := strings.Index(quoted+" ", `" `); end >= 0 {
				value, rest = quoted[:end], quoted[end+1:]
				rest, more = strings.CutPrefix(rest, sep)
				values = append(values, value)
				continue
			}
		}
		value, rest, more = strings.Cut(rest, sep)
		values = append(values, value)
	}
	return values
}

// sepOf returns the separator of the fields of a W3C line.
func sepOf(line string) string {
	if strings.IndexByte(line, '\t') >= 0 {
		return "\t"
	}
	return " "
}
