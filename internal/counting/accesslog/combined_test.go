package accesslog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

const (
	when  = `[17/May/2015:10:05:03 +0000]`
	unix  = 1431857103
	agent = `"-" "Mozilla/5.0 (X11; \"Linux\")"`
)

func TestParse_ReadsCombinedLines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, line                                   string
		client, host, method, target, agent, referer string
	}{
		{"combined", `192.0.2.7 - - ` + when + ` "GET /t?id=1 HTTP/1.1" 200 12 "http://a.test/" "curl/8"`,
			"192.0.2.7", "", "GET", "/t?id=1", "curl/8", "http://a.test/"},
		{"common", `192.0.2.7 - frank ` + when + ` "HEAD / HTTP/1.0" 304 -`,
			"192.0.2.7", "", "HEAD", "/", "", ""},
		{"vhost and port", `news.test:443 192.0.2.7 - - ` + when + ` "GET / HTTP/2.0" 200 1 ` + agent,
			"192.0.2.7", "news.test", "GET", "/", `Mozilla/5.0 (X11; "Linux")`, ""},
		{"vhost is an address", `[2001:db8::1]:80 2001:db8:1:2:3::4 - - ` + when + ` "GET / HTTP/2.0" 200 1`,
			"2001:db8:1:2::", "[2001:db8::1]", "GET", "/", "", ""},
		{"bare IPv6 is its /64", `2001:db8:1:2:3::4 - - ` + when + ` "GET / HTTP/1.1" 200 1`,
			"2001:db8:1:2::", "", "GET", "/", "", ""},
		{"client by name", `burger.letters.test - - ` + when + ` "GET / HTTP/1.0" 200 0`,
			"burger.letters.test", "", "GET", "/", "", ""},
		{"client unknown", `- - - ` + when + ` "GET / HTTP/1.0" 200 0`, "-", "", "GET", "/", "", ""},
		{"user with spaces", `192.0.2.7 - a b c ` + when + ` "GET / HTTP/1.1" 200 1`,
			"192.0.2.7", "", "GET", "/", "", ""},
		{"user forges a time", `192.0.2.7 - x [01/Jan/2001:00:00:00 +0000] ` + when + ` "GET / HTTP/1.1" 200 1`,
			"192.0.2.7", "", "GET", "/", "", ""},
		{"escaped quotes", `192.0.2.7 - - ` + when + ` "GET /a\"b\x22\\c\xE4 HTTP/1.1" 200 1 "-" "a\"b"`,
			"192.0.2.7", "", "GET", "/a\"b\"\\c\xe4", `a"b`, ""},
		{"backslashes of no escape", `192.0.2.7 - - ` + when + ` "GET /a\q\xZZ\x1 HTTP/1.1" 200 1`,
			"192.0.2.7", "", "GET", `/a\q\xZZ\x1`, "", ""},
		{"raw quotes", `192.0.2.7 - - ` + when + ` "GET /images/"logo.gif" HTTP/1.0" 404 -`,
			"192.0.2.7", "", "GET", `/images/"logo.gif"`, "", ""},
		{"a quote at the end of the target", `192.0.2.7 - - ` + when + ` "GET /a\\" 200 1`,
			"192.0.2.7", "", "GET", `/a\`, "", ""},
		{"spaces in the target", `192.0.2.7 - - ` + when + ` "GET /a b c HTTP/1.1" 200 1`,
			"192.0.2.7", "", "GET", "/a b c", "", ""},
		{"no protocol", `192.0.2.7 - - ` + when + ` "GET /old" 200 1`, "192.0.2.7", "", "GET", "/old", "", ""},
		{"absolute form", `192.0.2.7 - - ` + when + ` "GET http://a.test/x HTTP/1.1" 200 1`,
			"192.0.2.7", "", "GET", "http://a.test/x", "", ""},
		{"options", `192.0.2.7 - - ` + when + ` "OPTIONS * HTTP/1.1" 200 1`, "192.0.2.7", "", "OPTIONS", "*", "", ""},
		{"no status", `192.0.2.7 - - ` + when + ` "GET / HTTP/1.1" - -`, "192.0.2.7", "", "GET", "/", "", ""},
		{"agent cut off", `192.0.2.7 - - ` + when + ` "GET / HTTP/1.1" 200 1 "-" "Mozi`,
			"192.0.2.7", "", "GET", "/", "Mozi", ""},
		{"more fields", `192.0.2.7 - - ` + when + ` "GET / HTTP/1.1" 200 1 "-" "c" "198.51.100.1" 0.003`,
			"192.0.2.7", "", "GET", "/", "c", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var e accesslog.Entry
			p, found, err := accesslog.Open(accesslog.Config{Format: accesslog.Combined}, []string{tt.line})
			if err == nil {
				err = p.Parse(tt.line, &e)
			}
			if err != nil || !found {
				t.Fatal(err)
			}
			r := e.Request
			got := []string{r.Client.String(), r.Host, r.Method, r.Target, r.Header.Get("user-agent"),
				r.Header.Get("Referer")}
			want := []string{tt.client, tt.host, tt.method, tt.target, tt.agent, tt.referer}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("field %d is %q, want %q", i, got[i], want[i])
				}
			}
			if e.Second != unix || e.Nanos != 0 {
				t.Errorf("time is %d.%09d, want %d", e.Second, e.Nanos, unix)
			}
		})
	}
}

func TestParse_RejectsMalformedCombinedLines(t *testing.T) {
	t.Parallel()
	who := `192.0.2.7 - - ` + when
	tests := []struct{ line, reason string }{
		{`#`, "[time]"},
		{who + ` "-" 408 0`, "no request"},
		{who + ` "" 400 0`, "no request"},
		{who + ` "\x16\x03\x01\x02" 400 0`, "METHOD target"},
		{who + ` "\x16\x03 \x02 HTTP/1.1" 400 0`, "METHOD target"},
		{who + ` "GET" 400 0`, "METHOD target"},
		{who + ` "GET  HTTP/1.1" 400 0`, "target"},
		{who + ` "quit now" 400 0`, "path"},
		{who + ` "GET / HTTP/1.1`, "quoted"},
		{who + ` "GET / HTTP/1.1" 20`, "status"},
		{who + ` "GET / HTTP/1.1\" 200 0`, "quoted"},
		{who + ` GET / HTTP/1.1 200 0`, "[time]"},
		{`[17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 0`, "client"},
		{`192.0.2.7 ` + when + ` "GET / HTTP/1.1" 200 0`, "ident"},
		{`192.0.2.7 - - [17/May/2015:10:05:03] "GET / HTTP/1.1" 200 0`, "dd/Mon/yyyy"},
		{`192.0.2.7 - - [17/Mai/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 0`, "dd/Mon/yyyy"},
		{`192.0.2.7 - - [31/Jun/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 0`, "dd/Mon/yyyy"},
		{`192.0.2.7 - - [29/Feb/1900:10:05:03 +0000] "GET / HTTP/1.1" 200 0`, "dd/Mon/yyyy"},
		{`192.0.2.7 - - [01/Jan/1970:00:00:00 +0000] "GET / HTTP/1.1" 200 0`, "dd/Mon/yyyy"},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			t.Parallel()
			var e accesslog.Entry
			err := accesslog.Combined.Parse(tt.line, &e)
			var bad *accesslog.Error
			if !errors.As(err, &bad) || !strings.Contains(bad.Reason, tt.reason) {
				t.Errorf("error is %v, want one about %q", err, tt.reason)
			}
		})
	}
}

func TestError_ShowsNoControlBytes(t *testing.T) {
	t.Parallel()
	var e accesslog.Entry
	err := accesslog.Combined.Parse("\x1b[2J"+strings.Repeat("x", 1<<20), &e)
	if s := err.Error(); strings.Contains(s, "\x1b") || len(s) > 200 {
		t.Errorf("error is %.300q", s)
	}
}

func TestOpen_FindsFormat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		lines  []string
		format accesslog.Format
		found  bool
	}{
		{nil, accesslog.Combined, false},
		{[]string{"what", "is this"}, accesslog.Combined, false},
		{[]string{`{"what": "is this"}`}, accesslog.JSON, false},
		{[]string{"#Fields: date time", "what"}, accesslog.IIS, false},
		{[]string{"# a comment", "", "1331923247\tc\tGET\t/r?g=1"}, accesslog.Events, true},
		{[]string{`{"t":1331923247,"client":"c","method":"GET","target":"/"}`}, accesslog.JSONL, true},
		{[]string{"garbage", `192.0.2.7 - - ` + when + ` "GET / HTTP/1.1" 200 0`}, accesslog.Combined, true},
	}
	for _, tt := range tests {
		p, found, err := accesslog.Open(accesslog.Config{}, tt.lines)
		if err != nil || p.Format() != tt.format || found != tt.found {
			t.Errorf("Open(%q) finds %q, %v, %v, want %q", tt.lines, p.Format(), found, err, tt.format)
		}
	}
	if _, _, err := accesslog.Open(accesslog.Config{Format: "none"}, nil); err == nil {
		t.Error("a format that does not exist is opened")
	}
}

func BenchmarkCombined(b *testing.B) {
	line :=
		`83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /presentations/logstash-monitorama-2013/images/kibana-search.png?id=42 HTTP/1.1" 200 203023 "http://semicomplete.test/presentations/logstash-monitorama-2013/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0.1700.77 Safari/537.36"`
	var e accesslog.Entry
	b.ReportAllocs()
	for b.Loop() {
		if err := accesslog.Combined.Parse(line, &e); err != nil {
			b.Fatal(err)
		}
	}
}
