package auth

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/logbound"
)

func TestCheckListen_RequiresATokenOffLoopback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addr    string
		guarded bool
		ok      bool
	}{
		{"127.0.0.1:7070", false, true}, {"[::1]:7070", false, true}, {"localhost:7070", false, true},
		{"127.9.9.9:0", false, true},
		{"unix:/run/hotparam.sock", false, true}, {"[::ffff:127.0.0.1]:80", false, true},
		{":7070", false, false}, {"0.0.0.0:7070", false, false}, {"[::]:7070", false, false},
		{"10.0.0.1:7070", false, false},
		{"admin.example.com:7070", false, false}, {"127.0.0.1.example.com:80", false, false},
		{"localhost", false, false}, {"", false, false},
		{"0.0.0.0:7070", true, true},
	} {
		err := CheckListen(c.addr, c.guarded)
		if (err == nil) != c.ok {
			t.Errorf("%q with a token %v: %v", c.addr, c.guarded, err)
		}
		if err != nil && !strings.Contains(err.Error(), `"`+c.addr+`"`) {
			t.Errorf("%q is not in: %v", c.addr, err)
		}
	}
}

const token = "s3cret-of-the-test"

func TestReadTokens_ChecksTheToken(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ text, file, want, err string }{
		{"", "", "", ""},
		{token, "", token, ""},
		{"", file(token + "\n"), token, ""},
		{"short", "", "", "--x.token: the token has 5 characters, it must have at least 16"},
		{"s3cret of the test", "", "", "holds a space"},
		{"s3cret-of-the-tést", "", "", "beyond ASCII"},
		{"", file(token + "\r\n\n another-token-of-it \n"), token + " another-token-of-it", ""},
		{"", file("a token of words\n"), "", "holds a space"},
		{"", file(token + "\nshort\n"), "", "--x.token_file: the token has 5"},
		{"", file(token + "1\n" + token + "2\n" + token + "3\n"), "", "has 3 lines"},
		{"", file("short\n"), "", "--x.token_file: the token has 5"},
		{"", file(" \n"), "", "is empty"},
		{"", "/no/such/file", "", "--x.token_file: open /no/such/file"},
		{token, file(token), "", "keep one"},
	} {
		tokens, err := ReadTokens("x.token", c.text, c.file)
		got := strings.Join(tokens, " ")
		if c.err == "" && (err != nil || got != c.want) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) ||
			strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// ask shows a token from an address, in the form of a header.
func ask(g *Guard, from, header string, at time.Time) Result {
	r := httptest.NewRequest(http.MethodPost, "/v1/decide", nil)
	r.RemoteAddr = from
	if header != "" {
		r.Header.Set("Authorization", header)
	}
	return g.Check(r, at)
}

func TestOwnSite_RejectsPagesOfOtherSites(t *testing.T) {
	t.Parallel()
	h := OwnSite(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		host, origin, site string
		want               int
	}{
		{"127.0.0.1:8181", "", "", 200}, {"localhost", "", "", 200}, {"[::1]:8181", "", "", 200},
		{"127.0.0.1:8181", "http://127.0.0.1:8181", "", 200}, {"127.0.0.1:8181", "", "same-origin", 200},
		{"127.0.0.1:8181", "https://evil.example", "", 403}, {"127.0.0.1:8181", "", "cross-site", 403},
		{"127.0.0.1:8181", "null", "", 403},
		{"evil.example:8181", "", "", 421}, {"127.0.0.1.evil.example", "", "", 421}, {"10.0.0.1:8181", "", "", 421},
	} {
		r, w := httptest.NewRequest(http.MethodPost, "/v1/decide", nil), httptest.NewRecorder()
		r.Host = c.host
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%+v: %d", c, w.Code)
		}
	}
}

// A feed without a token answers gateways, and nothing that a page of a browser asks for.
func TestGatewaysOnly_RejectsBrowsers(t *testing.T) {
	t.Parallel()
	h := GatewaysOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		host, origin, site string
		want               int
	}{
		{"hotparam", "", "", 200}, {"127.0.0.1:8186", "", "", 200}, {"[::1]:8186", "", "", 200},
		{"localhost:8186", "", "", 200}, {"hotparam:8186", "", "", 200}, {"127.0.0.1:8186", "", "none", 200},
		{"127.0.0.1:8186", "http://evil.example", "", 403}, {"127.0.0.1:8186", "http://127.0.0.1:8186", "", 403},
		{"hotparam", "null", "", 403}, {"hotparam", "", "cross-site", 403}, {"hotparam", "", "same-site", 403},
		{"evil.example", "", "", 421}, {"hotparam.evil.example:8186", "", "", 421}, {"", "", "", 421},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r, w := httptest.NewRequest(method, "/v1/edge/counts", nil), httptest.NewRecorder()
			r.Host = c.host
			for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			if h.ServeHTTP(w, r); w.Code != c.want {
				t.Errorf("%s %+v: %d", method, c, w.Code)
			}
		}
	}
}

func TestGuard_AcceptsOnlyTheToken(t *testing.T) {
	t.Parallel()
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	g := NewGuard("decide", token, slog.New(slog.DiscardHandler))
	for header, want := range map[string]int{
		"": 401, "Bearer": 401, "Bearer " + token[1:]: 401, "Bearer " + token + "1": 401, token: 401,
		basic(token, ""): 401, basic("", "no"): 401,
		"Bearer " + token: 0, "bearer " + token: 0, basic("ann", token): 0, basic("", token): 0,
	} {
		if v := ask(g, "192.0.2.1:1", header, time.Unix(1e9, 0)); v.Status != want {
			t.Errorf("%q: %d, want %d", header, v.Status, want)
		}
	}
	open := NewGuard("decide", "", slog.New(slog.DiscardHandler))
	if v := ask(open, "192.0.2.1:1", "", time.Unix(1e9, 0)); v.Status != 0 {
		t.Errorf("without a token: %d", v.Status)
	}
}

// A gateway takes 401, 403 and 429 for a denial of its client, so each call without a valid token gets 503, with the
// cause. The gateway counts as refused for a minute, and the log names the cause too.
func TestGatewayGuard_RejectsWith503(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	g := NewGatewayGuard("check", token, logbound.Logger(slog.New(slog.NewTextHandler(&said, nil))))
	now := time.Unix(1e9, 0)
	if n := g.Refused(now); n != 0 {
		t.Errorf("%d gateways are refused before any asked", n)
	}
	headers := append(slices.Repeat([]string{"Bearer another-token"}, 2*maxAttempts), "", "Basic eA==")
	for i, header := range headers {
		v := ask(g, "192.0.2.1:1", header, now)
		h := http.Header{}
		if v.SetHeader(h); v.Status != 503 || !strings.Contains(v.Detail(), "listener check is missing or wrong") ||
			h.Get("X-Hotparam-Reason") != "bad_token" || h.Get("WWW-Authenticate") != "" {
			t.Errorf("call %d: %d %q %v", i, v.Status, v.Detail(), h)
		}
	}
	ask(g, "192.0.2.2:1", "", now.Add(time.Second))
	if v := ask(g, "192.0.2.1:1", "Bearer "+token, now); v.Status != 0 {
		t.Errorf("the right token: %d", v.Status)
	}
	if n := g.Refused(now.Add(refusedFor - 1)); n != 2 {
		t.Errorf("%d gateways are refused, want 2", n)
	}
	if n := g.Refused(now.Add(refusedFor)); n != 1 {
		t.Errorf("%d gateways are refused after a minute, want the one that asked later", n)
	}
	if n := strings.Count(said.String(), "a gateway is refused"); n == 0 || n != strings.Count(said.String(), "\n") ||
		strings.Contains(said.String(), "another-token") {
		t.Errorf("said: %s", &said)
	}
	for i := range 2 * maxGuessers {
		ask(g, fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), "", now)
	}
	if n := g.Refused(now); n > maxGuessers {
		t.Errorf("%d addresses are remembered", n)
	}
}

func TestGuard_SlowsOnlyTheGuessingClient(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	g := NewGuard("decide", token, logbound.Logger(slog.New(slog.NewTextHandler(&said, nil))))
	now := time.Unix(1e9, 0)
	for i := range 10 {
		// Ports and the addresses of one IPv6 network are one client.
		if v := ask(g, fmt.Sprintf("[2001:db8::%d]:%d", i, 1000+i), "Bearer guess", now); v.Status != 401 {
			t.Errorf("guess %d: %d", i, v.Status)
		}
	}
	if v := ask(g, "[2001:db8::77]:1", "Bearer guess", now); v.Status != 429 || v.RetryAfter <= 0 ||
		v.RetryAfter > 6*time.Second {
		t.Errorf("after ten guesses: %+v", v)
	}
	// A guesser behind the same NAT does not lock out the gateway that asks, whether or not it has asked before.
	if v := ask(g, "[2001:db8::77]:1", "Bearer "+token, now); v.Status != 0 {
		t.Errorf("the right token after ten guesses: %+v", v)
	}
	if v := ask(g, "[2001:db8:0:1::1]:1", "Bearer guess", now); v.Status != 401 {
		t.Errorf("another client: %+v", v)
	}
	if v := ask(g, "[2001:db8::77]:1", "Bearer guess", now.Add(7*time.Second)); v.Status != 401 {
		t.Errorf("after the wait: %+v", v)
	}
	if s := g.Stats(); s.Unauthorized != 12 || s.RateLimited != 1 {
		t.Errorf("%+v", s)
	}
	if n := strings.Count(said.String(), "\n"); n > 2 || !strings.Contains(said.String(), "wrong token") ||
		strings.Contains(said.String(), "guess") {
		t.Errorf("%d lines: %s", n, &said)
	}
}

func TestGuard_CountsNoGuessWithoutAToken(t *testing.T) {
	t.Parallel()
	g := NewGuard("admin", token, slog.New(slog.DiscardHandler))
	for range 100 {
		if v := ask(g, "192.0.2.1:1", "", time.Unix(1e9, 0)); v.Status != 401 {
			t.Fatalf("%+v", v)
		}
	}
}

func BenchmarkGuard(b *testing.B) {
	g := NewGuard("decide", token, slog.New(slog.DiscardHandler))
	r := httptest.NewRequest(http.MethodPost, "/v1/decide", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	b.ReportAllocs()
	for b.Loop() {
		if g.Check(r, time.Unix(1e9, 0)).Status != 0 {
			b.Fatal("refused")
		}
	}
}
