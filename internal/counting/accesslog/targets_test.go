package accesslog_test

import (
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// Whatever a server writes for a byte of a target, it is the byte that the server received.
func TestParse_UndoesEscapes(t *testing.T) {
	t.Parallel()
	const head, tail = `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET `, ` HTTP/1.1" 200 5`
	const target = "/a?id=п\"\\\x01"
	for _, tt := range []struct {
		format accesslog.Format
		line   string
	}{
		{accesslog.Combined, head + `/a?id=\xD0\xBF\x22\x5C\x01` + tail}, // nginx
		{accesslog.Combined, head + `/a?id=\xd0\xbf\"\\\x01` + tail},     // Apache
		{accesslog.Combined, head + `/a?id=п\"\\\x01` + tail},
		{"log_format:$remote_addr $msec $request_uri $status", `192.0.2.1 971211336 /a?id=\xD0\xBF\x22\x5C\x01 200`},
		{"log_format:$remote_addr $msec $uri?$args $status", `192.0.2.1 971211336 /a?id=\xD0\xBF\x22\x5C\x01 200`},
		{"log_format:$remote_addr $msec $uri$is_args$args $status", `192.0.2.1 971211336 /a?id=\xD0\xBF\x22\x5C\x01 200`},
		{accesslog.JSON, `{"time":971211336,"request_uri":"/a?id=\xD0\xBF\x22\x5C\x01"}`},
		{accesslog.JSON, `{"time":971211336,"request_uri":"/a?id=\u043f\"\\\u0001"}`},
		{accesslog.JSON, `{"time":971211336,"uri":"/a","args":"id=\xD0\xBF\x22\\\x01"}`},
		{accesslog.HAProxy, `192.0.2.1:1 [10/Oct/2000:13:55:36.1] f b/s 0/0/0/0/0 200 1 - - ---- 1/1/1/1/0 0/0 ` +
			`"GET /a?id=#D0#BF#22\#01 HTTP/1.1"`},
	} {
		var e accesslog.Entry
		if err := tt.format.Parse(tt.line, &e); err != nil || e.Request.Target != target {
			t.Errorf("%s, %s: %q, %v", tt.format, tt.line, e.Request.Target, err)
		}
	}
}

// The target is the request's, whatever field has it, and a named field takes the place of all others.
func TestParse_JoinsFieldsOfTheTarget(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		`"request":"GET /a?b=c HTTP/1.1","uri":"/x"`:     "/a?b=c",
		`"request":"/a?b=c","uri":"/x"`:                  "/a?b=c",
		`"request_uri":"/a?b=c","uri":"/x","args":"d=e"`: "/a?b=c",
		`"request_uri":"/a","uri":"/x","args":"d=e"`:     "/a",
		`"uri":"/a","args":"b=c"`:                        "/a?b=c",
		`"uri":"/a","args":"-"`:                          "/a",
		`"uri":"/a?b=c","args":"b=c"`:                    "/a?b=c",
		`"path":"/a","request_query":"b=c"`:              "/a?b=c",
		`"url":"/a","query":"b=c"`:                       "/a?b=c",
		`"uri":"/a","query_string":"?b=c "`:              "/a?b=c",
		`"url":"https://h.example/a","query":"b=c"`:      "/a?b=c",
		`"request":"-","uri":"/"`:                        errNoRequest,
		`"request":"- - HTTP/1.1"`:                       errNoRequest,
		`"request_method":"-","uri":"/"`:                 errNoRequest,
		`"request_uri":"-"`:                              errNoRequest,
		`"request_uri":"x"`:                              "must be a path",
		`"status":200`:                                   "no field with the target",
	} {
		line := `{"time":971211336,"ip":"192.0.2.1",` + fields + `}`
		if got := targetOf(accesslog.JSON, line); !isTarget(got, want) {
			t.Errorf("%s: %s, want %s", fields, got, want)
		}
	}
	line := `{"time":971211336,"request":"GET /x HTTP/1.1","args":"d=e","link":"/a","page":"/p","q":"b=c"}`
	for format, want := range map[accesslog.Format]string{
		"log_format:json:target=link":       "/a",
		"log_format:json:path=page":         "/p",
		"log_format:json:path=page,query=q": "/p?b=c",
		"log_format:json:target=none":       "no field with the target",
	} {
		if got := targetOf(format, line); !isTarget(got, want) {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
}

const errNoRequest = "line has no request"

// targetOf returns the target of a line or the error.
func targetOf(format accesslog.Format, line string) string {
	var e accesslog.Entry
	if err := format.Parse(line, &e); err != nil {
		return err.Error()
	}
	return e.Request.Target
}

// isTarget reports whether got is a target or an error about it.
func isTarget(got, want string) bool {
	return got == want || strings.HasPrefix(got, "accesslog: ") && strings.Contains(got, want)
}

// The error of a line without a request names this reason in each format.
func TestParse_FindsNoRequest(t *testing.T) {
	t.Parallel()
	for format, line := range map[accesslog.Format]string{
		accesslog.Combined: `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "-" 408 0`,
		accesslog.Envoy:    `[2026-09-21T14:13:20.000Z] "- - HTTP/1.1" 400 DPE 0 11 0 - "-" "-" "-" "-" "-"`,
		accesslog.ALB: `https 2026-09-21T14:13:20.0Z app/lb 203.0.113.0:2817 - -1 -1 -1 400 - 0 366 "- http://h:80- - " ` +
			`"-" - - arn`,
		accesslog.IIS: "2024-03-15 09:30:00 10.0.0.1 - - - 80 - 192.0.2.1 - - 400",
	} {
		if got := targetOf(format, line); !strings.Contains(got, errNoRequest) {
			t.Errorf("%s: %s", format, got)
		}
	}
}
