package accesslog

import (
	"encoding/json"
	"strings"
)

// The roles of the fields of a JSON line.
const (
	jsonTime = iota
	jsonClient
	jsonRequest
	jsonMethod
	jsonTarget
	jsonPath
	jsonQuery
	jsonStatus
	jsonHost
	jsonAgent
	jsonReferer
	jsonRoles
)

var roleNames = [jsonRoles]string{
	"time", "client", "request", "method", "target", "path", "query", "status", "host", "user_agent", "referer",
}

// known holds the names of fields in the logs of nginx, Caddy, Traefik, Envoy, Google Cloud, ECS and others, the most
// certain first. A dot separates the name of an object from a field in it.
var known = [jsonRoles][]string{
	jsonTime: {"t", "ts", "time", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec", "StartUTC",
		"StartLocal", "start_time", "datetime", "date"},
	jsonClient: {"client", "client_ip", "clientip", "request.client_ip", "request.remote_ip", "remote_addr",
		"remote_ip", "ClientHost", "ClientAddr", "source.ip", "client.ip", "httpRequest.remoteIp",
		"request.remote_addr", "x_forwarded_for", "downstream_remote_address",
		"downstream_remote_address_without_port", "remote_host", "ip", "src_ip", "c_ip"},
	jsonRequest: {"request", "request_line", "http_request"},
	jsonMethod: {"method", "request_method", "RequestMethod", "request.method", "http_method", "http.request.method",
		"httpRequest.requestMethod", "verb"},
	jsonTarget: {"target", "request_uri", "RequestPath", "request.uri", "uri", "url", "url.original",
		"httpRequest.requestUrl", "requestUrl", "request_url", "x_envoy_original_path", "request.url"},
	jsonPath:  {"path", "url.path", "request_path", "uri_path", "document_uri"},
	jsonQuery: {"args", "query_string", "query", "url.query"},
	jsonStatus: {"status", "DownstreamStatus", "response_code", "status_code", "statusCode",
		"http.response.status_code", "httpRequest.status", "code", "response.status"},
	jsonHost: {"host", "RequestHost", "http_host", "request.host", "authority", "url.domain", "vhost", "RequestAddr"},
	jsonAgent: {"user_agent", "http_user_agent", "request_User-Agent", "request.headers.User-Agent", "userAgent",
		"user_agent.original", "httpRequest.userAgent", "agent", "ua"},
	jsonReferer: {"referer", "http_referer", "referrer", "request_Referer", "request.headers.Referer",
		"http.request.referrer", "httpRequest.referer"},
}

// parseObject parses one JSON object.
func (p *Parser) parseObject(line string, e *Entry) error {
	if isBlank(line) {
		return ErrSkip
	}
	fields := map[string]any{}
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return &Error{"line must be a JSON object", line}
	}
	var r raw
	to := [jsonRoles]*string{&r.time, &r.client, &r.request, &r.method, &r.target, &r.path, &r.query, &r.status,
		&r.host, &r.agent, &r.referer}
	for role, field := range to {
		*field = emptyIfDash(p.lookUp(fields, role))
	}
	if r.time == "" {
		return &Error{"line has no field with the time; name it by --log-format json:time=FIELD,client=FIELD,target=FIELD", line}
	}
	if r.request == "" && r.target == "" && r.path == "" {
		return &Error{"line has no field with the target; name it by --log-format json:time=FIELD,client=FIELD,target=FIELD",
			line}
	}
	return e.fill(&r)
}

func (p *Parser) lookUp(fields map[string]any, role int) string {
	if name := p.named[roleNames[role]]; name != "" {
		return textOf(fields, name)
	}
	if name := p.found[role]; name != "" {
		if v := textOf(fields, name); v != "" {
			return v
		}
	}
	for _, name := range known[role] {
		if v := textOf(fields, name); v != "" {
			p.found[role] = name
			return v
		}
	}
	return ""
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
