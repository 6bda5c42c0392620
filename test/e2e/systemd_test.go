package e2e

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

const unitDir = "../../deploy/systemd"

// units are the files of our services.
func units(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(unitDir + "/*.service")
	if err != nil || len(found) != 4 {
		t.Fatalf("units %v, error %v, want one for each of the four programs", found, err)
	}
	return found
}

// settings reads the lines NAME=VALUE of a unit, a drop-in or an environment file.
func settings(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); strings.HasSuffix(line, `\`) {
			t.Fatalf("%s: %q goes on in the next line, which this test does not read", path, line)
		}
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			out[name] = value
		}
	}
	return out
}

// unitSettings returns the settings of a unit and the settings that all units share.
func unitSettings(t *testing.T, path string) map[string]string {
	t.Helper()
	out := settings(t, unitDir+"/hotparam-.service.d/service.conf")
	maps.Copy(out, settings(t, path))
	return out
}

// Each unit's command line starts with the example files, notifies systemd when its listeners are open, takes
// ExecReload's signal, and ends with code 0.
func TestSystemdUnits_StartReloadAndStop(t *testing.T) {
	t.Parallel()
	for _, path := range units(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".service"), func(t *testing.T) {
			t.Parallel()
			unit := unitSettings(t, path)
			if unit["Type"] != "notify" || unit["ExecReload"] != "/bin/kill -HUP $MAINPID" || unit["KillSignal"] != "" {
				t.Fatalf("Type %q, ExecReload %q, KillSignal %q: this test does what other settings say", unit["Type"],
					unit["ExecReload"], unit["KillSignal"])
			}
			told := unixSocket(t)
			env, listeners := unitEnvironment(t, unit)
			p := program.Start(t, unitCommand(t, unit, append(env, "NOTIFY_SOCKET="+told.LocalAddr().String())))
			expectState(t, told, "READY=1")
			for _, addr := range listeners {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Errorf("ready, but %v", err)
					continue
				}
				_ = conn.Close()
			}
			p.Signal(syscall.SIGHUP)
			program.Await(t, time.Minute, "the reload",
				func() bool { return strings.Contains(p.Said(), "configuration read again") })
			p.Signal(syscall.SIGTERM)
			expectState(t, told, "STOPPING=1")
			most, err := time.ParseDuration(unit["TimeoutStopSec"])
			if err != nil {
				t.Fatal(err)
			}
			if code := p.Wait(most); code != 0 {
				t.Errorf("exit code %d after SIGTERM, want 0", code)
			}
		})
	}
}

// unitCommand is ExecStart with the programs of this checkout and the example files.
func unitCommand(t *testing.T, unit map[string]string, env []string) *exec.Cmd {
	t.Helper()
	dir := program.Ours(t)
	examples, err := filepath.Abs(unitDir)
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("/etc/hotparam", examples, "%S", t.TempDir())
	args := strings.Fields(here.Replace(unit["ExecStart"]))
	cmd := exec.Command(filepath.Join(dir, args[0]), args[1:]...)
	cmd.Env, cmd.Dir = env, t.TempDir()
	return cmd
}

// unitEnvironment is the example of the unit's environment file, with free ports for
// the usual ones and no Redis, and the TCP addresses among them.
func unitEnvironment(t *testing.T, unit map[string]string) (env, listeners []string) {
	t.Helper()
	file, ok := strings.CutPrefix(unit["EnvironmentFile"], "-/etc/hotparam/")
	if !ok {
		t.Fatalf("EnvironmentFile=%s", unit["EnvironmentFile"])
	}
	vars := settings(t, filepath.Join(unitDir, file))
	vars["HOTPARAM_ADMIN_LISTEN"], vars["HOTPARAM_DECIDE_LISTEN"] = "", ""
	if file != "serve.env" { // serve refuses a Redis of its own that it would not use
		vars["HOTPARAM_REDIS_ADDR"] = "127.0.0.1:1"
	}
	for name, value := range vars {
		if strings.HasSuffix(name, "_LISTEN") {
			value = freeport.Addr(t)
			if name == "HOTPARAM_ADMIN_LISTEN" || name == "HOTPARAM_PROXY_LISTEN" || name == "HOTPARAM_MIRROR_LISTEN" {
				listeners = append(listeners, value)
			}
		}
		env = append(env, name+"="+value)
	}
	return env, listeners
}

// expectState reads the notification to systemd.
func expectState(t *testing.T, told *net.UnixConn, want string) {
	t.Helper()
	_ = told.SetReadDeadline(time.Now().Add(20 * time.Second))
	var b [256]byte
	n, err := told.Read(b[:])
	if err != nil || string(b[:n]) != want {
		t.Fatalf("systemd was told %q, error %v, want %q", b[:n], err, want)
	}
}

// systemd-analyze finds no fault in the units, and rates their sandbox as good.
func TestSystemdUnits_PassAnalyze(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if redistest.RequireAll() {
			t.Fatal("systemd-analyze is not installed (apt-get install systemd)")
		}
		t.Skip("systemd-analyze is not installed")
	}
	dir := program.Ours(t)
	there := t.TempDir()
	if err := os.CopyFS(there, os.DirFS(unitDir)); err != nil {
		t.Fatal(err)
	}
	for _, path := range units(t) {
		unit := filepath.Join(there, filepath.Base(path))
		data, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		// verify asks for programs that are there.
		if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(data), "ExecStart=", "ExecStart="+dir+"/")),
			0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
		if err != nil || strings.Contains(string(out), there) { // other units of the machine may have their own faults
			t.Errorf("systemd-analyze verify %s: %v\n%s", filepath.Base(path), err, out)
		}
		// 20 of 100; a service without any of the options has 96.
		out, err = exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze security %s: %v\n%s", filepath.Base(path), err, out)
		}
	}
}
