package others

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

const httplint = "httplint==2026.10.4"

// lintedRules deny by a block, by a limit of a key, by a window of the client, and by a limit of a class that gets a
// visitor pass; cached.html is answered from memory.
const lintedRules = `
rules:
  - {name: topic, match: {path: "/topic"}, params: [id], hot: {rate: 100000}, limit: {rate: 1000, burst: 2000}}
  - name: news
    match: {path: "/news"}
    params: []
    hot: {rate: 100000}
    limit: {rate: 1000, burst: 2000, priority: [member, visitor]}
  - {name: login, match: {path: "/login"}, per_client: {fixed: {limit: 1, window: 24h}}}
  - {name: cached, match: {path: "/cached.html"}, params: [], hot: {rate: 100000}, cache: {ttl: 1m}}
classes:
  - {name: member, match: {header: X-User, pattern: "."}}
  - {name: visitor, pass_age: 10s}
overrides:
  - {key: "topic?id=blocked", action: block}
  - {key: "topic?id=limited", action: limit, rate: 0.001, burst: 1}
  - {key: news, action: limit, rate: 0.001, burst: 1}
  - {key: cached, action: cache}
`

// message is a response, as lint.py reads it.
type message struct {
	Name   string      `json:"name"`
	Method string      `json:"method"`
	Target string      `json:"target"`
	Status int         `json:"status"`
	Fields [][2]string `json:"fields"`
	Body   []byte      `json:"body"`
	At     int64       `json:"at"` // time of the response, in seconds since 1970
}

// exchange sends a request on a connection of its own and returns the response as it was sent.
func exchange(addr, method, target string, fields ...string) (m message, err error) {
	conn, err := net.DialTimeout("tcp", addr, time.Minute)
	if err != nil {
		return m, err
	}
	defer conn.Close()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, target, addr)
	for _, f := range fields {
		head += f + "\r\n"
	}
	if method == http.MethodPost {
		head += "Content-Length: 0\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return m, err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return m, err
	}
	m = message{Method: method, Target: target, Body: []byte{}, At: time.Now().Unix()}
	lines, _, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	for _, line := range strings.Split(string(lines), "\r\n")[1:] {
		name, value, _ := strings.Cut(line, ":")
		if name != "Connection" { // the case asked for it
			m.Fields = append(m.Fields, [2]string{name, strings.TrimSpace(value)})
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), &http.Request{Method: method})
	if err != nil {
		return m, err
	}
	m.Status = res.StatusCode
	m.Body, err = io.ReadAll(res.Body)
	return m, err
}

// Httplint warns of no denial of any form, and of no other response of the product.
func TestResponses_PassHttplint(t *testing.T) {
	s := begin(t, "httplint", httplint)
	bin := python(t, httplint)
	var messages []message
	add := func(name, addr, method, target string, want int, fields ...string) {
		t.Helper()
		m, err := exchange(addr, method, target, fields...)
		m.Name = strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", name, method, target, strings.Join(fields, " ")))
		if err != nil || m.Status != want {
			s.record(m.Name, fmt.Errorf("%v, status %d, want %d", err, m.Status, want))
			return
		}
		messages = append(messages, m)
	}
	for _, status := range []int{429, 503} {
		for _, style := range []hottype.HeaderStyle{hottype.HeadersRateLimit, hottype.HeadersXRateLimit,
			hottype.HeadersBoth} {
			denials(t, status, style, add)
		}
	}
	ofProxy(t, add)
	otherResponses(t, add)
	const faulty = "what the linter has to see"
	messages = append(messages, message{Name: faulty, Method: "GET", Target: "/", Status: 429,
		Fields: [][2]string{{"Content-Length", "7"}, {"Retry-After", "soon"}}, Body: []byte{}})
	var in bytes.Buffer
	for _, m := range messages {
		if err := json.NewEncoder(&in).Encode(m); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "python"), "lint.py")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var judged struct {
			Name  string
			Notes []string
		}
		if err := json.Unmarshal(lines.Bytes(), &judged); err != nil {
			t.Fatal(err)
		}
		if judged.Name == faulty {
			if len(judged.Notes) < 2 {
				t.Errorf("of a faulty response the linter says only %q", judged.Notes)
			}
			continue
		}
		var fault error
		if len(judged.Notes) > 0 {
			fault = errors.New(strings.Join(judged.Notes, "; "))
		}
		s.record(judged.Name, fault)
	}
	if s.outcome.Cases < len(messages)-1 {
		t.Errorf("%d of %d responses were judged", s.outcome.Cases, len(messages))
	}
}

// denials adds denials with a status and a style of header fields, in all forms of bodies.
func denials(t *testing.T, status int, style hottype.HeaderStyle, add func(name, addr, method, target string, want int,
	fields ...string)) {
	t.Helper()
	rules, err := hotparam.ParseRules("rules.yaml", []byte(lintedRules))
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redistest.Running(t, p.Run))
	server := httptest.NewServer(p.MiddlewareWith(hotparam.Options[hotparam.Exchange]{Status: status, Headers: style,
		ExposeHeaders: true})(http.HandlerFunc(page)))
	t.Cleanup(server.Close)
	addr := server.Listener.Addr().String()
	name := fmt.Sprintf("%d %s", status, style)
	for _, target := range []string{"/topic?id=limited", "/news", "/login"} {
		add(name+", allowed", addr, "GET", target, 200)
	}
	addForms(name, addr, status, add)
}

// page answers with a page that a cache may store.
func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "max-age=60")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "<!doctype html><title>hello</title>")
}

// addForms adds the forms of denials.
func addForms(name, addr string, status int, add func(name, addr, method, target string, want int, fields ...string)) {
	for _, target := range []string{"/topic?id=blocked", "/topic?id=limited", "/news", "/login"} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			add(name, addr, method, target, status)
			for _, accept := range []string{"text/html", "application/json", "application/problem+json", "text/plain",
				"*/*", "image/png"} {
				add(name, addr, method, target, status, "Accept: "+accept)
			}
		}
	}
}

// serveFor starts the program with rules before an upstream, and returns the addresses of its proxy and of its admin
// listener.
func serveFor(t *testing.T, rules, upstream string, flags ...string) (addr, admin string) {
	t.Helper()
	addr, admin = freeport.Addr(t), freeport.Addr(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "hotparam.yaml")
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	program.Launch(t, "hotparam", append([]string{"serve", "--config", config, "--upstream", upstream, "--listen", addr,
		"--admin.listen", admin, "--state.dir", filepath.Join(dir, "state")}, flags...)...)
	program.Await(t, time.Minute, "serve", func() bool {
		m, err := exchange(admin, "GET", "/readyz")
		return err == nil && m.Status == http.StatusOK
	})
	return addr, admin
}

// ofProxy adds denials of the proxy, and responses from its memory.
func ofProxy(t *testing.T, add func(name, addr, method, target string, want int, fields ...string)) {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(page))
	t.Cleanup(upstream.Close)
	addr, _ := serveFor(t, lintedRules, upstream.URL)
	for _, target := range []string{"/topic?id=limited", "/news", "/login", "/cached.html"} {
		add("proxy, allowed", addr, "GET", target, 200)
	}
	for _, method := range []string{"GET", "HEAD"} {
		add("proxy, from memory", addr, method, "/cached.html", 200)
	}
	addForms("proxy", addr, 429, add)
}

// otherResponses adds responses that are no denials by a limit: of a failing upstream, of gateways' questions, of the
// admin API.
func otherResponses(t *testing.T, add func(name, addr, method, target string, want int, fields ...string)) {
	t.Helper()
	gone := freeport.Addr(t)
	decide, check, edge := freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	addr, admin := serveFor(t, lintedRules, "http://"+gone, "--decide.listen", decide, "--check.listen", check,
		"--check.dialect", "path", "--edge.listen", edge)
	for _, accept := range []string{"text/html", "application/json", "*/*"} {
		add("no upstream", addr, "GET", "/", 502, "Accept: "+accept)
	}
	add("options", addr, "OPTIONS", "*", 200)
	add("check", check, "GET", "/check?/topic?id=1", 200)
	add("check", check, "GET", "/check?/topic?id=blocked", 429)
	add("check", check, "GET", "/elsewhere", 400)
	add("decide", decide, "GET", "/v1/decide", 405)
	add("decide", decide, "POST", "/v1/decide", 400)
	add("decide", decide, "GET", "/nothing", 404)
	add("edge", edge, "GET", "/v1/edge", 200)
	for target, status := range map[string]int{"/": 200, "/v1/hot": 200, "/v1/overrides": 200, "/v1/audit": 200,
		"/metrics": 200, "/livez": 200, "/readyz": 200, "/openapi.json": 200, "/v1/keys/topic%3Fid%3D1": 200,
		"/nothing": 404} {
		add("admin", admin, "GET", target, status)
		add("admin", admin, "HEAD", target, status)
	}
	add("admin", admin, "DELETE", "/v1/hot", 405)
}
