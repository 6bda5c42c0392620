// Package adaptertest states the laws of every adapter for an HTTP framework as one suite. Each adapter runs it against
// a server of its framework.
package adaptertest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

// Site is a server of a framework whose context is C.
type Site[C any] struct {
	// ParseAs is the value of parse_as that docs/go.md recommends for the framework, in YAML.
	ParseAs string
	// Header returns a header field of a request, and Path its path.
	Header func(c C, name string) string
	Path   func(C) string
	// Answer answers with a status and a text.
	Answer func(c C, status int, text string) error
	// Serve starts a server with the adapter before all its handlers and returns its address. The server answers /topic
	// and /health with "id=" and the framework's value of the parameter id, and /judged with Judged of the context of
	// the request. It ends with the test.
	Serve func(t *testing.T, p *hotparam.Pipeline, o hotparam.Options[C]) (addr string)
}

const rules = `
parse_as: %s
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}
overrides:
  - {key: "topic?id=star", action: block}
  - {key: "topic?id=42", action: block}
ip: {sliding: {limit: %d, window: 1h}, trusted_proxies: [127.0.0.1]}
`

// Run checks a framework by the suite.
func Run[C any](t *testing.T, s Site[C]) {
	t.Helper()
	t.Run("Spellings", s.spellings)
	t.Run("Denial", s.denial)
	t.Run("Client", s.client)
	t.Run("Options", s.options)
	t.Run("InContext", s.inContext)
}

func (s *Site[C]) pipeline(t *testing.T, perClient int) *hotparam.Pipeline {
	t.Helper()
	return newPipeline(t, fmt.Appendf(nil, rules, s.ParseAs, perClient))
}

// newPipeline returns a pipeline with rules in YAML.
func newPipeline(t *testing.T, rules []byte) *hotparam.Pipeline {
	t.Helper()
	set, err := hotparam.ParseRules("rules.yaml", rules)
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: set, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// spellings sends all spellings of two blocked topics that are known to have reached some framework, byte for byte. No
// spelling may reach the handler of this framework.
func (s *Site[C]) spellings(t *testing.T) {
	addr := s.Serve(t, s.pipeline(t, 1_000_000), hotparam.Options[C]{})
	if status, body := send(t, addr, "GET", "/topic?id=7", nil); status != 200 || body != "id=7" {
		t.Fatalf("another topic: %d %q", status, body)
	}
	targets := readTargets(t)
	denied := 0
	for _, target := range targets {
		if target.Param != "" || target.Means != "star" && target.Means != "42" || target.Group == "body" {
			continue
		}
		status, body := send(t, addr, "GET", target.bytes(), target.Headers)
		if status == http.StatusTooManyRequests {
			denied++
		}
		if status == 200 && body == "id="+target.Means {
			t.Errorf("%s: %q reached the handler as %s", target.Group, target.bytes(), body)
		}
	}
	if denied < 10 {
		t.Errorf("%d spellings were denied: does anything reach the adapter?", denied)
	}
}

// denial checks that status, fields and body of a denial are the same as those of middleware and gateways.
func (s *Site[C]) denial(t *testing.T) {
	addr := s.Serve(t, s.pipeline(t, 2), hotparam.Options[C]{Headers: "both"})
	allowed := get(t, addr, "/topic?id=7", map[string]string{"X-Forwarded-For": "198.51.100.1"})
	if !strings.HasPrefix(allowed.header.Get("RateLimit"), `"ip_sliding";r=1;t=`) || allowed.status != 200 ||
		allowed.header.Get("X-RateLimit-Limit") != "2" {
		t.Errorf("allowed: %+v", allowed)
	}
	for accept, want := range map[string]string{
		"": "application/problem+json", "text/html": "text/html; charset=utf-8",
		"text/plain": "text/plain; charset=utf-8",
	} {
		r := get(t, addr, "/topic?id=42", map[string]string{"Accept": accept})
		if r.status != 429 || r.header.Get("Content-Type") != want || r.body == "" ||
			r.header.Get("Cache-Control") != "no-store" ||
			r.header.Get("Vary") != "Accept" || r.header.Get("Retry-After") != "" {
			t.Errorf("%q: %+v", accept, r)
		}
	}
}

// client checks that the client is the address that the trusted proxy in front names, and never an address that a
// client names.
func (s *Site[C]) client(t *testing.T) {
	addr := s.Serve(t, s.pipeline(t, 1), hotparam.Options[C]{})
	for i, c := range []struct {
		forwarded string
		want      int
	}{
		{"198.51.100.1", 200}, {"198.51.100.1", 429}, {"198.51.100.2", 200}, {"198.51.100.99, 198.51.100.1", 429},
	} {
		r := get(t, addr, "/topic?id=7", map[string]string{"X-Forwarded-For": c.forwarded})
		if r.status != c.want {
			t.Errorf("%d, for %s: %d, want %d", i, c.forwarded, r.status, c.want)
		}
	}
}

// options checks the effect of each option with the framework's own context.
func (s *Site[C]) options(t *testing.T) {
	errWrong := errors.New("wrong key")
	addr := s.Serve(t, s.pipeline(t, 5), hotparam.Options[C]{
		Skip: func(c C) bool { return s.Path(c) == "/health" },
		Client: func(c C) (string, error) {
			if key := s.Header(c, "X-Key"); key != "wrong" {
				return key, nil
			}
			return "", errWrong
		},
		OnClientError: func(c C, err error) error {
			if errors.Is(err, errWrong) {
				return s.Answer(c, http.StatusUnauthorized, "who are you?")
			}
			return err
		},
		Cost: func(C) int64 { return 5 },
		Deny: func(c C, v *hotparam.Verdict) error {
			return s.Answer(c, http.StatusServiceUnavailable, "no: "+v.Reason.String())
		},
	})
	for _, c := range []struct {
		path, key string
		status    int
		body      string
	}{
		{"/topic?id=7", "anna", 200, "id=7"},
		{"/topic?id=7", "anna", 503, "no: ip_sliding"},
		{"/topic?id=7", "bert", 200, "id=7"},
		{"/topic?id=42", "carl", 503, "no: blocked"},
		{"/health?id=7", "anna", 200, "id=7"},
	} {
		r := get(t, addr, c.path, map[string]string{"X-Key": c.key})
		if r.status != c.status || r.body != c.body {
			t.Errorf("%+v: %+v", c, r)
		}
		if c.body == "no: ip_sliding" && (r.header.Get("RateLimit") == "" || r.header.Get("Retry-After") == "") {
			t.Errorf("%+v: %v", c, r.header)
		}
	}
	if r := get(t, addr, "/topic?id=7", map[string]string{"X-Key": "wrong"}); r.status != http.StatusUnauthorized {
		t.Errorf("a client without a name: %+v", r)
	}
}

// target is a request target of the table of spellings. Each character of Target is one byte.
type target struct {
	Target, Group, Means, Param string
	Headers                     map[string]string
}

func (t *target) bytes() string {
	var out []byte
	for _, r := range t.Target {
		out = append(out, byte(r))
	}
	return string(out)
}

func readTargets(t *testing.T) []target {
	t.Helper()
	data, err := os.ReadFile("../../internal/rules/testdata/upstreams.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct{ Targets []target }
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	return table.Targets
}

// send sends a request unchanged, as no client library would.
func send(t *testing.T, addr, method, target string, header map[string]string) (status int, body string) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n", method, target)
	for name, value := range header {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	if _, err := io.WriteString(conn, b.String()+"\r\n"); err != nil {
		return 0, ""
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "" // the server rejects such a target
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(text)
}

// answer is the response that a client received.
type answer struct {
	status int
	header http.Header
	body   string
}

func get(t *testing.T, addr, path string, header map[string]string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}
