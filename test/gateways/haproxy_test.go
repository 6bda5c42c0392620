package gateways

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/test/internal/program"
)

// installed is a gateway of Debian's packages.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if required() {
		t.Fatalf("%v: apt-get install %s", err, name)
	}
	t.Skipf("no %s: install it", name)
	return ""
}

func TestHAProxy(t *testing.T) {
	t.Parallel()
	haproxy := installed(t, "haproxy")
	a := startApp(t)
	agent, front := program.FreePort(t), program.FreePort(t)
	l := startLimiter(t, "--spoe.listen", "127.0.0.1:"+agent)
	spoe := deployed(t, "haproxy/hotparam.spoe")
	config := deployed(t, "haproxy/haproxy.cfg",
		"bind :10000", "bind 127.0.0.1:"+front, "/etc/haproxy/hotparam.spoe", spoe,
		"127.0.0.1:8080", a.Listener.Addr().String(), "127.0.0.1:8184", "127.0.0.1:"+agent)
	program.Start(t, exec.Command(haproxy, "-db", "-f", config, "-p", filepath.Join(t.TempDir(), "pid")))
	g := &gateway{t: t, addr: "127.0.0.1:" + front}
	program.Await(t, 20*time.Second, "haproxy", func() bool { return reachable(g.addr) })
	program.Await(t, 20*time.Second, "the first refusal", func() bool { return g.get("/topic?id=blocked").status == 429 })

	if got := g.ask("PUT", "/topic?id=9&x=a%2Fb+c&&y", "X-Mine", "1"); got.status != 200 {
		t.Fatalf("cold: %+v", got)
	}
	if r, _ := a.last(); r.Method != "PUT" || r.Host != "news.example" || r.RequestURI != "/topic?id=9&x=a%2Fb+c&&y" || r.Header.Get("X-Mine") != "1" {
		t.Errorf("the application saw %s %s %s", r.Method, r.Host, r.RequestURI)
	}
	_, before := a.last()
	blocked := g.get("/topic?id=blocked")
	if blocked.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(blocked.body, `"reason":"blocked"`) ||
		blocked.header.Get("Retry-After") != "" {
		t.Errorf("blocked: %+v", blocked)
	}
	for i := range 5 {
		if got := g.get("/topic?id=viral"); got.status != 200 || got.header.Get("Ratelimit-Policy") == "" {
			t.Errorf("viral %d: %+v", i, got)
		}
	}
	viral := g.get("/topic?id=viral")
	if viral.status != 429 || viral.header.Get("Retry-After") == "" || !strings.Contains(viral.header.Get("Ratelimit"), "r=0") ||
		viral.header.Get("Cache-Control") != "no-store" || !strings.Contains(viral.body, `"key":"topic?id=viral"`) {
		t.Errorf("viral: %+v", viral)
	}
	for _, target := range []string{
		"/topic?id=viral&user=%FF", "/topic?user=%FF&id=viral", "/topic?id=%76iral", "/topic?id=other&id=viral",
		"/topic?id=viral&id=other", "/topic?&id=viral&", "http://news.example/topic?id=viral",
	} {
		if got := g.get(target, "X-Original-URI", "/", "X-Forwarded-For", "198.51.100.7"); got.status == 200 {
			t.Errorf("%q passed", target)
		}
	}
	if got := g.get("/topic?id=cold"); got.status != 200 {
		t.Errorf("another topic: %+v", got)
	}
	if _, after := a.last(); after != before+6 {
		t.Errorf("%d requests reached the application, want 6", after-before)
	}
	failsOpen(t, g, l)
}
