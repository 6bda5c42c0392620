package accesslog

import (
	"encoding/json"
	"slices"
	"strings"
)

// The roles of the fields of a JSON line and of the columns of a W3C log.
const (
	roleTime = iota
	roleClient
	roleForwarded
	roleRequest
	roleMethod
	roleTarget
	rolePath
	roleQuery
	roleStatus
	roleHost
	roleAgent
	roleReferer
	roleUpstream
	roleUpstreamMS
	roleUpstreamNS
	roleSeconds
	roleMS
	roleNS
	roleDuration
	roleBytes
	roleCost
	roles
)

var roleNames = [roles]string{
	"time", "client", "forwarded", "request", "method", "target", "path", "query", "status", "host", "user_agent",
	"referer", "upstream_seconds", "upstream_ms", "upstream_ns", "seconds", "ms", "ns", "duration", "bytes", "cost",
}

// known holds the names of fields in the logs of nginx, Caddy, Traefik, Envoy, Google Cloud, ECS and others, the most
// certain first. A dot separates the name of an object from a field in it. A target is complete; a path has its query
// in another field.
var known = [roles][]string{
	roleTime: {"t", "ts", "time", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec", "StartUTC",
		"StartLocal", "start_time", "datetime", "date", "requestTime", "EdgeStartTimestamp", "timeStamp", "started_at",
		"request_time_iso8601", "time_date"},
	roleClient: {"client", "client_ip", "clientip", "request.client_ip", "request.remote_ip", "remote_ip",
		"remote_addr", "ClientHost", "ClientAddr", "source.ip", "client.ip", "httpRequest.remoteIp",
		"httpRequest.clientIp", "request.remote_addr", "downstream_remote_address",
		"downstream_remote_address_without_port", "remote_host", "ip", "src_ip", "c_ip", "ClientIP", "clientIp",
		"clientIP", "sourceIp", "properties.clientIP", "properties.clientIp", "req.remoteAddress", "remoteAddress",
		"identity.sourceIp", "remote_address", "remoteip", "remote", "network.client.ip", "proxy.clientIp"},
	roleForwarded: {"x_forwarded_for", "http_x_forwarded_for", "X-Forwarded-For", "x-forwarded-for", "xff",
		"forwarded_for", "request_X-Forwarded-For", "request.headers.X-Forwarded-For",
		"request.headers.x-forwarded-for", "headers.x-forwarded-for", "proxy_add_x_forwarded_for"},
	roleRequest: {"request", "request_line", "http_request", "requestLine", "req"},
	roleMethod: {"method", "request_method", "RequestMethod", "request.method", "http_method", "http.request.method",
		"httpRequest.requestMethod", "httpRequest.httpMethod", "httpMethod", "ClientRequestMethod",
		"properties.httpMethod", "req.method", "proxy.method", "verb"},
	roleTarget: {"target", "request_uri", "RequestPath", "request.uri", "url.original", "httpRequest.requestUrl",
		"requestUrl", "request_url", "x_envoy_original_path", "ClientRequestURI", "req.url", "proxy.path"},
	rolePath: {"uri", "url", "path", "url.path", "request_path", "uri_path", "document_uri", "request.url",
		"httpRequest.uri", "properties.requestUri", "rawPath", "resourcePath", "req.path"},
	roleQuery: {"args", "query_string", "query", "request_query", "url.query", "querystring", "queryString",
		"httpRequest.args", "properties.requestQuery", "uri_query", "request_args"},
	roleStatus: {"status", "DownstreamStatus", "response_code", "status_code", "statusCode", "http_status",
		"http.response.status_code", "httpRequest.status", "EdgeResponseStatus", "properties.httpStatus",
		"properties.httpStatusCode", "code", "response.status", "res.statusCode", "proxy.statusCode"},
	roleHost: {"host", "RequestHost", "http_host", "request.host", "authority", "url.domain", "vhost", "RequestAddr",
		"ClientRequestHost", "properties.host", "proxy.host"},
	roleAgent: {"user_agent", "http_user_agent", "request_User-Agent", "request.headers.User-Agent", "userAgent",
		"user_agent.original", "httpRequest.userAgent", "ClientRequestUserAgent", "properties.userAgent",
		"request.headers.user-agent", "req.headers.user-agent", "agent", "ua"},
	roleReferer: {"referer", "http_referer", "referrer", "http_referrer", "request_Referer", "request.headers.Referer",
		"http.request.referrer", "httpRequest.referer", "ClientRequestReferer"},
	roleUpstream:   {"upstream_header_time", "upstream_response_time"},
	roleUpstreamMS: {"upstream_service_time", "x_envoy_upstream_service_time", "latencies.proxy"},
	roleUpstreamNS: {"OriginDuration"},
	roleSeconds:    {"request_time", "httpRequest.latency"},
	roleMS:         {"ms", "duration_ms", "latency_ms", "response_time_ms", "latencies.request"},
	roleNS:         {"Duration", "event.duration"},
	roleDuration:   {"duration", "request_duration"},
	roleBytes: {"bytes", "body_bytes_sent", "bytes_sent", "size", "DownstreamContentSize", "response_size",
		"httpRequest.responseSize", "http.response.body.bytes", "response.size", "bytes_out"},
	roleCost: {"cost", "upstream_http_x_cost", "sent_http_x_cost"},
}

// nameFields is the remedy for fields with unknown names.
const nameFields = "name it by --log-format json:time=FIELD,client=FIELD,target=FIELD"

// parseObject parses one JSON object.
func (p *Parser) parseObject(line string, e *Entry) error {
	if line[0] != '{' {
		return &Error{"line must be a JSON object", line}
	}
	fields, ok := decodeObject(line)
	if !ok && strings.Contains(line, `\x`) {
		fields, ok = decodeObject(repairJSON(line))
	}
	if !ok {
		return &Error{"line must be a JSON object", line}
	}
	var f found
	f.visit(knownFields, fields)
	var r raw
	for role, part := range r.parts() {
		if *part = f[role].text; len(p.named) > 0 && p.isReplaced(role) {
			*part = textOf(fields, p.named[roleNames[role]])
		}
	}
	switch {
	case emptyIfDash(r.time) == "":
		return &Error{"line has no field with the time; " + nameFields, line}
	case r.request == "" && r.target == "" && r.path == "":
		return &Error{"line has no field with the target; " + nameFields, line}
	}
	switch {
	case p.named[roleNames[roleClient]] != "":
		r.names = anyNames
	case f[roleClient].resolved:
		r.names = hostNames
	}
	return p.fill(e, &r, keep)
}

// parts returns the parts of a line by their role.
func (r *raw) parts() [roles]*string {
	return [roles]*string{&r.time, &r.client, &r.forwarded, &r.request, &r.method, &r.target, &r.path, &r.query,
		&r.status, &r.host, &r.agent, &r.referer, &r.costs.upstream, &r.costs.upstreamMS, &r.costs.upstreamNS,
		&r.costs.seconds, &r.costs.ms, &r.costs.ns, &r.costs.duration, &r.costs.bytes, &r.costs.field}
}

// keep returns s, which has no escapes.
func keep(s string) string { return s }

func decodeObject(line string) (fields map[string]any, ok bool) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	return fields, d.Decode(&fields) == nil && fields != nil
}

// alike are roles whose fields say the same: if one of a group has a name in --log-format, the others of the group
// count only if they have one too.
var alike = [][]int{{roleClient, roleForwarded}, {roleRequest, roleTarget, rolePath, roleQuery}}

// isReplaced reports whether a named field, or its absence beside named ones that say the same, takes the place of the
// known fields of a role.
func (p *Parser) isReplaced(role int) bool {
	isNamed := func(r int) bool { return p.named[roleNames[r]] != "" }
	return isNamed(role) || slices.ContainsFunc(alike, func(group []int) bool {
		return slices.Contains(group, role) && slices.ContainsFunc(group, isNamed)
	})
}

// knownField is a field of known as a node of a tree, so that reading a line costs a step for each of its fields.
type knownField struct {
	inner map[string]*knownField
	uses  []use
}

// use is a role of a field, and its rank among the fields of the role: the lowest counts.
type use struct {
	role, rank int
	resolved   bool // the writer of the field resolves addresses
}

var knownFields = newKnownFields()

func newKnownFields() *knownField {
	root := &knownField{}
	for role, names := range known {
		for i, name := range names {
			u := use{role, 2 * i, name == "remote_host"}
			root.add(strings.Split(name, "."), u)
			if u.rank++; strings.Contains(name, ".") { // flat objects have the whole name as one field
				root.add([]string{name}, u)
			}
		}
	}
	return root
}

func (k *knownField) add(path []string, u use) {
	if len(path) == 0 {
		k.uses = append(k.uses, u)
		return
	}
	if k.inner == nil {
		k.inner = map[string]*knownField{}
	}
	if k.inner[path[0]] == nil {
		k.inner[path[0]] = &knownField{}
	}
	k.inner[path[0]].add(path[1:], u)
}

// found holds the best value of each role in a line.
type found [roles]struct {
	use
	text   string
	usable bool
}

// visit finds the values of known fields in an object.
func (f *found) visit(k *knownField, fields map[string]any) {
	for name, value := range fields {
		field := k.inner[name]
		if field == nil {
			continue
		}
		if object, ok := value.(map[string]any); ok {
			f.visit(field, object)
			continue
		}
		for _, u := range field.uses {
			f.add(u, textOfValue(value))
		}
	}
}

func (f *found) add(u use, text string) {
	best, usable := &f[u.role], u.accepts(text)
	if text == "" || best.text != "" && (best.usable && !usable || best.usable == usable && best.rank < u.rank) {
		return
	}
	best.use, best.text, best.usable = u, text, usable
}

// accepts reports whether a field can have the role with this value. A client must be an address, because many programs
// have a field of the same name for something else.
func (u use) accepts(text string) bool {
	return text != "-" && (u.role != roleClient || isAddress(text) || strings.IndexByte(text, ',') > 0 ||
		u.resolved && isHostName(text))
}

// textOf returns the text or number of a field, or the first of a list, or "" if there is none.
func textOf(fields map[string]any, name string) string {
	value, ok := fields[name]
	for !ok {
		first, rest, more := strings.Cut(name, ".")
		if !more {
			return ""
		}
		if fields, ok = fields[first].(map[string]any); !ok {
			return ""
		}
		name = rest
		value, ok = fields[name]
	}
	return textOfValue(value)
}

// textOfValue returns the text or number of a field, or the first of a list, or "" if there is none.
func textOfValue(value any) string {
	if list, is := value.([]any); is && len(list) > 0 {
		value = list[0]
	}
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return plainNumber(v)
	}
	return ""
}

// plainNumber returns a number without an exponent, which some programs use for times.
func plainNumber(n json.Number) string {
	s := string(n)
	if !strings.ContainsAny(s, "eE") {
		return s
	}
	second, nanos, ok := parseTime(json.RawMessage(s))
	if !ok {
		return s
	}
	return string(appendTime(nil, second, nanos))
}
