package accesslog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// wrapJSON returns an object that has the line in a field.
func wrapJSON(field, line string) string {
	b, err := json.Marshal(map[string]string{field: line + "\n", "stream": "stdout", "time": "2026-09-21T14:13:20Z"})
	if err != nil {
		panic(err) // a map of strings has a JSON form
	}
	return string(b)
}

// wrappings are the forms in which programs carry a line of a server. n is the number of the line.
var wrappings = map[string]func(n int, line string) string{
	"nothing":       func(_ int, l string) string { return l },
	"leading space": func(_ int, l string) string { return " " + l },
	"CRI":           func(n int, l string) string { return fmt.Sprintf("2026-09-21T14:13:%02d.%09dZ stdout F %s", n, n, l) },
	"docker logs -t": func(n int, l string) string {
		return fmt.Sprintf("2026-09-21T14:13:%02d.%09dZ %s", n, n, l)
	},
	"docker, json-file":    func(_ int, l string) string { return wrapJSON("log", l) },
	"docker compose":       func(n int, l string) string { return fmt.Sprintf("web-%d  | %s", n%3, l) },
	"docker compose, one":  func(_ int, l string) string { return "web | " + l },
	"stern":                func(_ int, l string) string { return "web-7d9c8b nginx " + l },
	"kubectl --prefix":     func(_ int, l string) string { return "[pod/web-7d9c8b/nginx] " + l },
	"grep":                 func(n int, l string) string { return fmt.Sprintf("access.log.%d:%s", n%2, l) },
	"grep -n":              func(n int, l string) string { return fmt.Sprintf("access.log:%d:%s", n, l) },
	"aws logs tail":        func(n int, l string) string { return fmt.Sprintf("2026-09-21T14:13:%02d.1+00:00 web/a %s", n, l) },
	"logcli":               func(n int, l string) string { return fmt.Sprintf(`2026-09-21T14:13:%02dZ {pod="web"} %s`, n, l) },
	"logcli -o jsonl":      func(_ int, l string) string { return wrapJSON("line", l) },
	"papertrail":           func(n int, l string) string { return fmt.Sprintf("Sep 21 14:13:%02d web1 nginx: %s", n, l) },
	"journalctl":           func(n int, l string) string { return fmt.Sprintf("Sep 21 14:13:%02d.123456 web nginx[7]: %s", n, l) },
	"journalctl -o json":   func(_ int, l string) string { return wrapJSON("MESSAGE", l) },
	"journalctl -o export": func(_ int, l string) string { return "_PID=7\nMESSAGE=" + l + "\n_UID=0\n" },
	"Filebeat":             func(_ int, l string) string { return wrapJSON("message", l) },
	"any words":            func(n int, l string) string { return fmt.Sprintf("x.example (%d) - front-end %s", n, l) },
}

// carried are lines of formats with a place for the client.
var carried = map[accesslog.Format]string{
	accesslog.Combined: `%s - - [21/Sep/2026:14:13:20 +0000] "GET /topic?id=42 HTTP/1.1" 200 512 "-" "curl/8"`,
	accesslog.HAProxy:  `%s:33317 [21/Sep/2026:14:13:20.655] fe be/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET /topic?id=42 HTTP/1.1"`,
	accesslog.Envoy:    `[2026-09-21T14:13:20.000Z] "GET /topic?id=42 HTTP/1.1" 200 - 0 12 3 2 "%s" "curl/8" "id" "www.example.org" "10.0.0.5:8080"`,
	accesslog.JSON:     `{"ts":1789999999,"remote_addr":"%s","request":"GET /topic?id=42 HTTP/1.1","status":200}`,
	accesslog.ELB:      `2026-09-21T14:13:20.000000Z lb %s:34140 192.168.1.48:80 0.1 0.1 0.1 200 200 0 710 "GET http://h:80/topic?id=42 HTTP/1.1" "curl/8" - -`,
}

// A line has its client and its target in every wrapping.
func TestOpen_UnwrapsLines(t *testing.T) {
	t.Parallel()
	for name, wrap := range wrappings {
		for format, form := range carried {
			var lines []string
			for n := range 30 {
				line := fmt.Sprintf(form, fmt.Sprintf("203.0.113.%d", n))
				lines = append(lines, strings.Split(wrap(n, line), "\n")...)
			}
			p, found, err := accesslog.Open(accesslog.Config{}, lines)
			// A word and a line of ELB are a line of ALB.
			if err != nil || !found ||
				p.Format() != format && (p.Format() != accesslog.ALB || format != accesslog.ELB) {
				t.Errorf("%s, %s: found %v, %s: %v", name, format, found, p.Format(), err)
				continue
			}
			var e accesslog.Entry
			n := 0
			for _, line := range lines {
				if err := p.Parse(line, &e); errors.Is(err, accesslog.ErrSkip) {
					continue
				} else if err != nil {
					t.Fatalf("%s, %s: %s: %v", name, format, line, err)
				}
				want := fmt.Sprintf("203.0.113.%d GET /topic?id=42", n)
				if got := fmt.Sprint(e.Request.Client, " ", e.Request.Method, " ", e.Request.Target); got != want {
					t.Fatalf("%s, %s: %s is read as %s, want %s", name, format, line, got, want)
				}
				n++
			}
			if n != 30 {
				t.Errorf("%s, %s: %d requests", name, format, n)
			}
		}
	}
}

// hostile are texts with which a client tries to become another one.
var hostile = []string{"198.18.0.1", " ", ", ", " - ", "-", "[21/Sep/2026:14:13:20 +0000]", "] ", "[", "x", `\"`, ":", "host.example",
	"unknown", ",", "{", "GET / HTTP/1.1", "127.0.0.1"}

// No client becomes another one by its user name, its URL, its Referer, its agent or by what it writes into
// X-Forwarded-For, even if half of the first lines are such.
func TestOpen_BelievesNoClient(t *testing.T) {
	t.Parallel()
	forms := map[string]string{ // with the places of user, target, Referer and agent
		"nginx":    `192.0.2.%d - %s [21/Sep/2026:14:13:20 +0000] "GET /%s HTTP/1.1" 200 5 "%s" "%s"`,
		"vhost":    `www.example.org:80 192.0.2.%d - %s [21/Sep/2026:14:13:20 +0000] "GET /%s HTTP/1.1" 200 5 "%s" "%s"`,
		"lighttpd": `192.0.2.%d www.example.org %s [21/Sep/2026:14:13:20 +0000] "GET /%s HTTP/1.1" 200 5 "%s" "%s"`,
		"main":     `192.0.2.%d - %s [21/Sep/2026:14:13:20 +0000] "GET /%s HTTP/1.1" 200 5 "%s" "%s" "198.18.0.1"`,
		"list":     `%[2]s, 192.0.2.%[1]d - - [21/Sep/2026:14:13:20 +0000] "GET /%[3]s HTTP/1.1" 200 5 "%[4]s" "%[5]s"`,
		"quoted":   `"%[2]s, 192.0.2.%[1]d" - - [21/Sep/2026:14:13:20 +0000] "GET /%[3]s HTTP/1.1" 200 5 "%[4]s" "%[5]s"`,
		"peer":     `%[2]s, 192.0.2.%[1]d 127.0.0.1 - - [21/Sep/2026:14:13:20 +0000] "GET /%[3]s HTTP/1.1" 200 5 "%[4]s" "%[5]s"`,
		"Envoy":    `[2026-09-21T14:13:20.000Z] "GET /%[3]s HTTP/1.1" 200 - 0 12 3 2 "%[2]s, 192.0.2.%[1]d" "%[5]s" "id" "h" "10.0.0.5:1"`,
	}
	plain := map[string]string{"nginx": "-", "vhost": "-", "lighttpd": "-", "main": "-"}
	rapid.Check(t, func(t *rapid.T) {
		wrap := wrappings[rapid.SampledFrom(slices.Sorted(func(yield func(string) bool) {
			for name := range wrappings {
				if !yield(name) {
					return
				}
			}
		})).Draw(t, "wrapping")]
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 1, 8).Draw(t, "text"), "")
		})
		names := []string{"nginx", "vhost", "lighttpd", "main", "list", "quoted", "peer", "Envoy"}
		name := rapid.SampledFrom(names).Draw(t, "form")
		honest := plain[name]
		if honest == "" {
			honest = "192.0.2.200"
		}
		var lines []string
		for n := range 20 {
			first := honest
			if n%2 == 1 {
				first = text.Draw(t, "first")
			}
			line := fmt.Sprintf(forms[name], n, first, text.Draw(t, "target"), text.Draw(t, "referer"),
				text.Draw(t, "agent"))
			lines = append(lines, strings.Split(wrap(n, line), "\n")...)
		}
		p, found, err := accesslog.Open(accesslog.Config{}, lines)
		if err != nil || !found {
			t.Fatalf("nothing found: %v", err)
		}
		var e accesslog.Entry
		read := 0
		for _, line := range lines {
			if p.Parse(line, &e) != nil {
				continue
			}
			read++
			if a := e.Request.Client.Addr; !netip.MustParsePrefix("192.0.2.0/24").Contains(a) {
				t.Fatalf("%s, %s: client %s", name, line, e.Request.Client)
			}
		}
		if read < 10 {
			t.Fatalf("%s: %d lines are read, of 10 by others", name, read)
		}
	})
}

// Lists of addresses are judged from the right, past the trusted ones, and an untrusted peer is the client.
func TestParse_JudgesForwardedLists(t *testing.T) {
	t.Parallel()
	const rest = ` - - [21/Sep/2026:14:13:20 +0000] "GET / HTTP/1.1" 200 5 "-" "x"`
	for _, tt := range []struct{ line, want, trusting string }{ // trusting 198.51.100.0/24
		{"203.0.113.1" + rest, "203.0.113.1", "203.0.113.1"},
		{"203.0.113.1, 198.51.100.9" + rest, "198.51.100.9", "203.0.113.1"},
		{"192.0.2.6, 203.0.113.1, 198.51.100.9, 10.0.0.1" + rest, "198.51.100.9", "203.0.113.1"},
		{`"203.0.113.1, 198.51.100.9"` + rest, "198.51.100.9", "203.0.113.1"},
		{`"203.0.113.1"` + rest, "203.0.113.1", "203.0.113.1"},
		{"203.0.113.1:4711, 10.0.0.1:80" + rest, "203.0.113.1", "203.0.113.1"},
		{"[2001:db8:1:2::1]:4711, 10.0.0.1:80" + rest, "2001:db8:1:2::", "2001:db8:1:2::"},
		{"203.0.113.1, 198.51.100.9 127.0.0.1" + rest, "198.51.100.9", "203.0.113.1"},
		{"203.0.113.1 198.51.100.9" + rest, "198.51.100.9", "203.0.113.1"},
		{"- 10.0.0.1" + rest, "10.0.0.1", "10.0.0.1"},
		{"10.0.0.2, 10.0.0.1" + rest, "10.0.0.2", "10.0.0.2"},
		{"203.0.113.1" + rest + ` "192.0.2.6"`, "203.0.113.1", "203.0.113.1"},
		{"198.51.100.9" + rest + ` "192.0.2.6"`, "198.51.100.9", "192.0.2.6"},
		{"10.0.0.1" + rest + ` "192.0.2.6, 203.0.113.1"`, "203.0.113.1", "203.0.113.1"},
		{"10.0.0.1" + rest + ` "1.5"`, "10.0.0.1", "10.0.0.1"},
		{"unix:" + rest, "-", "-"},
	} {
		for want, trusted := range map[string][]netip.Prefix{
			tt.want + " ": nil, tt.trusting: {netip.MustParsePrefix("198.51.100.0/24")},
		} {
			p, _, err := accesslog.Open(accesslog.Config{TrustedProxies: trusted}, []string{tt.line})
			var e accesslog.Entry
			if err = errors.Join(err, p.Parse(tt.line, &e)); err != nil ||
				e.Request.Client.String() != strings.TrimSpace(want) {
				t.Errorf("%s, trusting %v: %s, want %s: %v", tt.line, trusted, e.Request.Client, want, err)
			}
		}
	}
}

// A client is an address, or a name with a dot where servers resolve names; other lines say why they are refused.
func TestParse_RefusesClientsThatAreNone(t *testing.T) {
	t.Parallel()
	const rest = ` [21/Sep/2026:14:13:20 +0000] "GET / HTTP/1.1" 200 5`
	const object = `{"time":1789999999,"method":"GET","uri":"/"`
	for _, tt := range []struct {
		format accesslog.Format
		line   string
		want   string // the client, or the reason
	}{
		{accesslog.Combined, "host.example - -" + rest, "host.example"},
		{accesslog.Combined, "localhost - -" + rest, "a name with a dot"},
		{accesslog.Combined, "1.5 - -" + rest, "a name with a dot"},
		{accesslog.Combined, "a..b - -" + rest, "a name with a dot"},
		{accesslog.Combined, "web/1.example - -" + rest, "a name with a dot"},
		{accesslog.Combined, "host.example x x" + rest, "must be an address"},
		{accesslog.Combined, "unknown, x - -" + rest, "list of addresses"},
		{accesslog.JSON, object + `,"client_ip":"203.0.113.1"}`, "203.0.113.1"},
		{accesslog.JSON, object + `,"client":"ios","ip":"203.0.113.1"}`, "203.0.113.1"},
		{accesslog.JSON, object + `,"remote_host":"host.example"}`, "host.example"},
		{accesslog.JSON, object + `,"client_ip":"host.example"}`, "must be an address"},
		{accesslog.JSON, object + `}`, "-"},
		{"log_format:json:client=user", object + `,"user":"ann","client_ip":"203.0.113.1"}`, "ann"},
		{"log_format:json:client=user", object + `,"client_ip":"203.0.113.1"}`, "-"},
		{"log_format:$remote_addr $msec $request_uri", "host.example 1789999999 /", "must be an address"},
		{accesslog.Events, "1789999999\tann\tGET\t/", "ann"},
	} {
		var e accesslog.Entry
		got := ""
		if err := tt.format.Parse(tt.line, &e); err != nil {
			got = err.Error()
		} else {
			got = e.Request.Client.String()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s, %s: %s, want %s", tt.format, tt.line, got, tt.want)
		}
	}
}

// A client that writes a colon into X-Forwarded-For does not make the word before its line a head of syslog.
func TestOpen_FindsHeadsInMostLines(t *testing.T) {
	t.Parallel()
	var lines []string
	for n := range 20 {
		first := "192.0.2.200"
		if n%2 == 1 {
			first = ": "
		}
		lines = append(lines, fmt.Sprintf(`2026-09-21T14:13:20.1+00:00 web/a %s, 192.0.2.%d - - [21/Sep/2026:14:13:20 +0000] `+
			`"GET /topic?id=1 HTTP/1.1" 200 5 "-" "-"`, first, n))
	}
	p, found, err := accesslog.Open(accesslog.Config{}, lines)
	if err != nil || !found {
		t.Fatalf("nothing found: %v", err)
	}
	for n, line := range lines {
		var e accesslog.Entry
		if err := p.Parse(line, &e); err == nil && e.Request.Client.String() != fmt.Sprintf("192.0.2.%d", n) {
			t.Errorf("%s: client %s", line, e.Request.Client)
		}
	}
}
