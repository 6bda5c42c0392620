package forwardauth

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	realgate "github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// forgeries are fields that a client can send to pose as another one, or to be judged by another request.
var forgeries = []string{
	"X-Original-Uri: /free", "X-Original-Url: /free", "X-Original-Method: DELETE", "X-Original-Host: other.example",
	"X-Rewrite-Url: /free", "X-Forwarded-Uri: /free", "X-Forwarded-Method: DELETE", "X-Forwarded-Host: other.example",
	"X-Forwarded-Proto: ftp", "X-Forwarded-Port: 1", "X-Forwarded-Server: other.example", "X-Forwarded-Prefix: /free",
	"X-Forwarded-For: 10.0.0.9", "X-Real-Ip: 10.0.0.9", "Forwarded: for=10.0.0.9;host=other.example",
	`Forwarded: for="`,
	"True-Client-Ip: 6.6.6.6", "Cf-Connecting-Ip: 6.6.6.6", "X-Client-Ip: 6.6.6.6", "X-Envoy-External-Address: 6.6.6.6",
	"X-Envoy-Original-Path: /free", "X-Http-Method-Override: DELETE", "X-Original-Forwarded-For: 6.6.6.6", "Via: 1.1 x",
	"PROXY TCP4 6.6.6.6 192.0.2.1 1 2: x", "X_original_uri: /free", "X-Hotparam-Reason: exempt", "Peer: 6.6.6.6",
}

// gatewayWrites sets the fields that the gateway of a dialect sets for any client, and appends to the fields to which
// it appends.
func gatewayWrites(d Dialect, header http.Header) {
	set := func(lines ...string) {
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ": ")
			header[name] = []string{value}
		}
	}
	switch d {
	case Nginx:
		set("X-Original-Uri: /topic?id=42", "X-Original-Method: PUT", "X-Original-Host: news.example",
			"X-Real-Ip: 192.0.2.7")
	case IngressNginx:
		set("X-Original-Url: http://news.example/topic?id=42", "X-Original-Method: PUT", "X-Real-Ip: 192.0.2.7")
	case Forwarded:
		set("X-Forwarded-Uri: /topic?id=42", "X-Forwarded-Method: PUT", "X-Forwarded-Host: news.example")
		header.Add("X-Forwarded-For", "192.0.2.7") // Caddy and Traefik replace it; appending has the same effect
	case Path:
		set("X-Real-Ip: 192.0.2.7")
		header.Add("X-Forwarded-For", "192.0.2.7, 10.0.0.1")
		header.Add("Forwarded", "for=192.0.2.7")
	}
}

// Fields of a client never change the request that is judged: each forgery alone, and all of them, in every dialect and
// with every way to name the client.
func TestHandler_IgnoresForgedFields(t *testing.T) {
	t.Parallel()
	for _, d := range Dialects {
		for _, from := range []string{"peer", "x-forwarded-for", "forwarded", "x-real-ip"} {
			clients := httplimit.NewClients([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, from)
			h, g := newHandler(t, Config{Dialect: d, PathPrefix: "/check", Clients: clients})
			want := "PUT news.example /topic?id=42 192.0.2.7"
			if d == Path && from == "peer" {
				want = "PUT news.example /topic?id=42 -" // the peer is the gateway, so the client is unknown
			}
			for i := range len(forgeries) + 2 {
				forged := forgeries[:0]
				switch {
				case i == len(forgeries):
					forged = forgeries
				case i < len(forgeries):
					forged = forgeries[i : i+1]
				}
				r := checkOf("GET", "/check", forged...)
				if d == Path {
					r.Method, r.Host, r.RequestURI = "PUT", "news.example", "/check/topic?id=42"
				}
				gatewayWrites(d, r.Header)
				g.asked = nil
				h.ServeHTTP(httptest.NewRecorder(), r)
				if g.last() != want {
					t.Errorf("%s, client from %s, %q: asked about %q, want %q", d, from, forged, g.last(), want)
				}
			}
		}
	}
}

// spellings are the targets that were sent to 26 upstreams; docs/evasion.md.
func spellings(t *testing.T) (list []string) {
	t.Helper()
	data, err := os.ReadFile("../../rules/testdata/upstreams.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Targets []struct{ Target string } }
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, s := range doc.Targets {
		var b []byte
		for _, r := range s.Target { // each character of it is one byte
			b = append(b, byte(r))
		}
		list = append(list, string(b))
	}
	if len(list) < 200 {
		t.Fatalf("%d spellings", len(list))
	}
	return list
}

// keysOf are the keys of a request under rules that read every spelling.
func keysOf(set *rules.Set, r *hottype.Request) string {
	var b strings.Builder
	for _, m := range set.Match(r, new(rules.Scratch)) {
		fmt.Fprintf(&b, "%s malformed=%v\n", m.Key, m.Malformed)
	}
	return b.String()
}

// Every spelling has in every dialect the keys that it has for the middleware.
func TestHandler_HasTheKeysOfTheMiddleware(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("t.yaml",
		[]byte("parse_as: strict\nrules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}}]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range spellings(t) {
		want := keysOf(set, &hottype.Request{Method: "PUT", Host: "news.example", Target: target})
		for _, d := range Dialects {
			h, _ := newHandler(t, Config{Dialect: d, PathPrefix: "/check", Clients: proxies()})
			req, err := h.requestOf(described(d, target))
			if target == "" || d == Path && target[0] != '/' && target != "*" || d == IngressNginx && target[0] != '/' {
				continue // the absolute form: Envoy and nginx make a path of it
			}
			if err != nil {
				t.Errorf("%s: %.100q: %v", d, target, err)
				continue
			}
			if got := keysOf(set, &req); got != want {
				t.Errorf("%s: %.100q has the keys\n%swant\n%s", d, target, got, want)
			}
		}
	}
}

// On the wire net/http may reject a spelling. Each accepted spelling arrives byte for byte.
func TestHandler_ReceivesSpellingsUnchanged(t *testing.T) {
	t.Parallel()
	for _, d := range Dialects {
		h, g := newHandler(t, Config{Dialect: d, PathPrefix: "/check", Clients: proxies()})
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		denied := 0
		for _, target := range spellings(t) {
			if strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) || target == "" ||
				target[0] != '/' {
				continue // no gateway sends on such a target
			}
			g.asked = nil
			if status := send(t, server.Listener.Addr().String(), described(d, target)); status == 400 ||
				status == 431 {
				denied++
				continue
			}
			if want := "PUT news.example " + target + " 192.0.2.7"; g.last() != want {
				t.Errorf("%s: asked about %.100q, want %.100q", d, g.last(), want)
			}
		}
		if denied > 12 {
			t.Errorf("%s: %d spellings are denied", d, denied)
		}
	}
}

// send writes a check byte for byte.
func send(t *testing.T, addr string, r *http.Request) int {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", r.Method, r.RequestURI, r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			fmt.Fprintf(&b, "%s: %s\r\n", name, v)
		}
	}
	if _, err := io.WriteString(c, b.String()+"\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// 65,000 addresses of one IPv6 prefix are one client in every dialect.
func TestHandler_TakesAnIPv6PrefixForOneClient(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("t.yaml",
		[]byte("rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}}]\n"+
			"ip: {ipv6_prefix: 48, fixed: {limit: 5, window: 1h}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Dialects {
		h, err := New(Config{
			Gate: realgate.New(realgate.Config{Rules: set}), Dialect: d, PathPrefix: "/check", Clients: proxies(),
			Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < 65_000; i += 13 { // networks of one prefix
			r := described(d, "/topic?id=1")
			address := fmt.Sprintf("2001:db8:1:%x::%x", i, i)
			r.Header.Set("X-Real-Ip", address)
			r.Header.Set("X-Forwarded-For", address)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		if st := h.Stats(); st.Checks-st.Denied != 5 {
			t.Errorf("%s: %+v, want 5 allowed", d, st)
		}
	}
}

// FuzzChecks sends anything as the fields of every dialect: it is denied, or asked about as it came.
func FuzzChecks(f *testing.F) {
	f.Add("/topic?id=42", "GET", "192.0.2.7", "news.example")
	f.Add("/check", "", ", ,", "")
	f.Add("*", "PRI", "[::1]:80", "\xff")
	f.Add("//", "GET", "unix:", "a b")
	f.Add("?", "0", "unix:", "0")
	f.Fuzz(func(t *testing.T, target, method, client, host string) {
		for _, d := range Dialects {
			h, g := newHandler(t, Config{Dialect: d, PathPrefix: "/check", Clients: proxies()})
			r := checkOf("GET", "/check")
			r.Header["X-Original-Uri"], r.Header["X-Forwarded-Uri"] = []string{target}, []string{target}
			r.Header["X-Original-Method"], r.Header["X-Forwarded-Method"] = []string{method}, []string{method}
			r.Header["X-Real-Ip"], r.Header["X-Forwarded-For"] = []string{client}, []string{client}
			r.Header["X-Forwarded-Host"], r.Header["X-Original-Host"] = []string{host}, []string{host}
			r.Header["X-Original-Url"] = []string{"http://" + host + target}
			if d == Path {
				r.Method, r.RequestURI = method, "/check"+target
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			switch {
			case len(g.asked) == 0 && w.Code != 400 && w.Code != 404:
				t.Fatalf("%s: %d without a verdict", d, w.Code)
			case len(g.asked) > 0 && d == IngressNginx: // nginx accepts no host with a slash and no target without
			case len(g.asked) > 0 && !strings.Contains(g.last(), " "+target+" ") &&
				(!strings.HasPrefix(target, "?") || !strings.Contains(g.last(), " /"+target+" ")): // an empty path
				t.Fatalf("%s: asked about %q, want %q", d, g.last(), target)
			}
		}
	})
}
