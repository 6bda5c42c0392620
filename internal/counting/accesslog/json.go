package accesslog

import (
	"cmp"
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
	roles
)

var roleNames = [roles]string{
	"time", "client", "forwarded", "request", "method", "target", "path", "query", "status", "host", "user_agent",
	"referer",
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
}

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
	var r raw
	for role, part := range r.parts() {
		*part = p.lookUp(fields, role)
	}
	switch {
	case emptyIfDash(r.time) == "":
		return &Error{"line has no field with the time; name it by --log-format json:time=FIELD,client=FIELD,target=FIELD", line}
	case r.request == "" && r.target == "" && r.path == "":
		return &Error{"line has no field with the target; name it by --log-format json:time=FIELD,client=FIELD,target=FIELD",
			line}
	}
	switch {
	case p.named[roleNames[roleClient]] != "":
		r.names = anyNames
	case p.found[roleClient] == resolved:
		r.names = hostNames
	}
	return p.fill(e, &r, keep)
}

// parts returns the parts of a line by their role.
func (r *raw) parts() [roles]*string {
	return [roles]*string{&r.time, &r.client, &r.forwarded, &r.request, &r.method, &r.target, &r.path, &r.query,
		&r.status, &r.host, &r.agent, &r.referer}
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

// isReplaced reports whether named fields take the place of an unnamed role.
func (p *Parser) isReplaced(role int) bool {
	for _, group := range alike {
		if slices.Contains(group, role) {
			return slices.ContainsFunc(group, func(r int) bool { return p.named[roleNames[r]] != "" })
		}
	}
	return false
}

// lookUp returns the text of the field of a role, or "" if there is none.
func (p *Parser) lookUp(fields map[string]any, role int) string {
	if name := p.named[roleNames[role]]; name != "" {
		return textOf(fields, name)
	}
	if len(p.named) > 0 && p.isReplaced(role) {
		return ""
	}
	if name := p.found[role]; name != "" {
		if v := textOf(fields, name); isUsable(v, role, name) {
			return v
		}
	}
	first := ""
	for _, name := range known[role] {
		v := textOf(fields, name)
		if isUsable(v, role, name) {
			p.found[role] = name
			return v
		}
		first = cmp.Or(first, v)
	}
	return first
}

// resolved is the field whose writer resolves addresses.
const resolved = "remote_host"

// isUsable reports whether a field has a value for its role. A client must be an address, because many programs have a
// field of the same name for something else.
func isUsable(v string, role int, name string) bool {
	return emptyIfDash(v) != "" && (role != roleClient || isAddress(v) || strings.IndexByte(v, ',') > 0 ||
		name == resolved && isHostName(v))
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
