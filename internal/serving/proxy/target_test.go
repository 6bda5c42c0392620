package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/serving/proxy"
)

// raw sends a request head byte for byte.
func raw(t *testing.T, at, head string) (int, string) {
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
func TestFaultyTargetsAreRefused(t *testing.T) {
	t.Parallel()
	p, at := serve(t, proxy.Config{Upstreams: map[string]*url.URL{"": upstream(t, "up", nil)}})
	for _, target := range []string{
		"/topic?id=42#x", "/topic#?id=42", `/.\topic?id=42`, `//h\topic?id=42`, "http:/topic?id=42", "http:topic",
		"/topic?id=42 ", "/topic?id=4\t2",
		"/topic?id=42\x01", "/topic\x7f",
	} {
		if code, body := raw(t, at, "GET "+target+" HTTP/1.1\r\nHost: x"); code != 400 {
			t.Errorf("%q: %d %s", target, code, body)
		}
	}
	if n := p.Stats().Refused; n != 6 { // net/http refuses the others itself
		t.Errorf("%d refused", n)
	}
	for target, want := range map[string]string{
		"http://h/topic?id=1": "up /topic?id=1", "https://u:p@h:1/topic?u=http://x": "up /topic?u=http://x",
		"*": "up /*",
	} {
		method := "GET"
		if target == "*" {
			method = "OPTIONS"
		}
		if code, body := raw(t, at, method+" "+target+" HTTP/1.1\r\nHost: x"); code != 200 ||
			target != "*" && body != want {
			t.Errorf("%s: %d %s", target, code, body)
		}
	}
}

// gunicorn would take SCRIPT_NAME off the path.
func TestFieldsWithUnderscoresGoNoFurther(t *testing.T) {
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
	if code, body := raw(t, at, head); code != 200 ||
		body != "[X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Tier]" {
		t.Errorf("%d %s", code, body)
	}
	if n := p.Stats().DroppedFields; n != 2 {
		t.Errorf("%d fields dropped, want both names", n)
	}
}
