package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// sendRaw sends a request head byte for byte.
func sendRaw(t *testing.T, at, head string) (int, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s\r\nConnection: close\r\n\r\n", head)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// What upstreams read in different ways reaches none of them.
func TestProxy_RejectsFaultyTargets(t *testing.T) {
	t.Parallel()
	p, at := serve(t, proxy.Config{Upstreams: map[string]*url.URL{"": upstream(t, "up", nil)}})
	for _, target := range []string{
		"/topic?id=42#x", "/topic#?id=42", `/.\topic?id=42`, `//h\topic?id=42`, "http:/topic?id=42", "http:topic",
		"/topic?id=42 ", "/topic?id=4\t2",
		"/topic?id=42\x01", "/topic\x7f",
	} {
		if code, body := sendRaw(t, at, "GET "+target+" HTTP/1.1\r\nHost: x"); code != 400 {
			t.Errorf("%q: %d %s", target, code, body)
		}
	}
	if n := p.Stats().Rejected; n != 6 { // net/http rejects the others itself
		t.Errorf("%d rejected", n)
	}
	for target, want := range map[string]string{
		"http://h/topic?id=1": "up /topic?id=1", "https://u:p@h:1/topic?u=http://x": "up /topic?u=http://x",
		"*": "up /*",
	} {
		method := "GET"
		if target == "*" {
			method = "OPTIONS"
		}
		if code, body := sendRaw(t, at, method+" "+target+" HTTP/1.1\r\nHost: x"); code != 200 ||
			target != "*" && body != want {
			t.Errorf("%s: %d %s", target, code, body)
		}
	}
}

// gunicorn would take SCRIPT_NAME off the path.
func TestProxy_DropsFieldsWithUnderscores(t *testing.T) {
	t.Parallel()
	tell := func(w http.ResponseWriter, r *http.Request) {
		var names []string
		for name := range r.Header {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprint(w, names)
	}
	p, at := serve(t, proxy.Config{Upstreams: map[string]*url.URL{"": upstream(t, "", tell)}})
	head := "GET /zz/topic HTTP/1.1\r\nHost: x\r\nSCRIPT_NAME: /zz\r\nscript_name: /zz\r\nX_Tier_: a\r\nX-Tier: b"
	if code, body := sendRaw(t, at, head); code != 200 ||
		body != "[X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Tier]" {
		t.Errorf("%d %s", code, body)
	}
	if n := p.Stats().DroppedFields; n != 2 {
		t.Errorf("%d fields dropped, want both names", n)
	}
}

// A byte that net/url would encode arrives as it was judged, or not at all.
func TestProxy_SendsBadlyEncodedPathsAsJudged(t *testing.T) {
	t.Parallel()
	up := upstream(t, "up", nil)
	base := *up
	base.Path = "/b%2f/"
	for name, c := range map[string]struct {
		to     *url.URL
		before string
	}{"": {up, ""}, "with a path": {&base, "/b%252f"}} {
		_, at := serve(t, proxy.Config{Upstreams: map[string]*url.URL{"": c.to}})
		for _, target := range []string{
			"/%61rticles/star/x^", "/^%2f../topic?id=star", "/a|b", "/a\"b", "/<a>", "/{a}`", "/\x80%80", "/ä/%C3?ä^",
		} {
			if code, body := sendRaw(t, at, "GET "+target+" HTTP/1.1\r\nHost: x"); body != "up "+c.before+target {
				t.Errorf("%s%s arrived as %d %s", name, target, code, body)
			}
		}
		if code, _ := sendRaw(t, at, "GET //x^ HTTP/1.1\r\nHost: x"); code != http.StatusBadRequest {
			t.Errorf("two slashes and a byte to encode: %d", code)
		}
	}
}

// CONNECT asks for a tunnel; Upgrade to another protocol than WebSocket would be one past the gate.
func TestProxy_OpensNoTunnels(t *testing.T) {
	t.Parallel()
	tell := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s%s%s", r.Header["Connection"], r.Header["Upgrade"], r.Header["Http2-Settings"])
	}
	p, at := serve(t, proxy.Config{Upstreams: map[string]*url.URL{"": upstream(t, "", tell)}})
	for _, target := range []string{"evil:443", "/topic", "evil:443/topic?id=1"} {
		if code, _ := sendRaw(t, at, "CONNECT "+target+" HTTP/1.1\r\nHost: x"); code != http.StatusMethodNotAllowed {
			t.Errorf("CONNECT %s: %d", target, code)
		}
	}
	if s := p.Stats(); s.Connects != 3 || s.Upstreams[""].Requests != 0 {
		t.Errorf("%+v", s)
	}
	for upgrade, want := range map[string]string{
		"h2c": "[][][]", "websocket, h2c": "[][][]", "TLS/1.0": "[][][]", "WebSocket": "[Upgrade][websocket][]",
	} {
		head := "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAM\r\nUpgrade: "
		if code, body := sendRaw(t, at, head+upgrade); code != http.StatusOK || body != want {
			t.Errorf("%s: %d %s, want %s", upgrade, code, body, want)
		}
	}
}

// The fields that Connection names reach neither the upstream nor the key of the cache.
func TestProxy_DropsFieldsNamedByConnection(t *testing.T) {
	t.Parallel()
	g := &recorder{policy: policy{&hottype.CachePolicy{TTL: time.Minute, MaxBody: 1 << 16, Wait: time.Second,
		Vary: []string{"Accept-Language"}}}}
	p, err := proxy.New(g, proxy.Config{Upstreams: map[string]*url.URL{
		"": upstream(t, "", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Vary", "Accept-Language")
			w.Header().Set("Cache-Control", "max-age=60")
			fmt.Fprintf(w, "%q", r.Header.Get("Accept-Language"))
		})}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	const french = "GET /topic?id=42 HTTP/1.1\r\nHost: x\r\nAccept-Language: fr\r\n"
	if _, body := sendRaw(t, srv.URL, french+"Connection: Accept-Language"); body != `""` {
		t.Errorf("the named field arrived: %s", body)
	}
	if _, body := sendRaw(t, srv.URL, french+"Accept: a"); body != `"fr"` {
		t.Errorf("the variant of another: %s", body)
	}
}
