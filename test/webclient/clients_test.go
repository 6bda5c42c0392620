package webclient

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// These are the results of the clients of examples/ for two requests for a topic with a limit of one a second, and
// without a limiter.
const (
	wantAllowed, wantDenied, wantNobody = "true override", "false override 1", "true no_answer"

	askInPython = `
import sys
sys.path.insert(0, sys.argv[1])
from hotparam import Limiter, retry_after
limiter = Limiter(sys.argv[2], token=sys.argv[4], timeout=10)
v = limiter.decide("GET", "/topic?id=42", ip="198.51.100.7")
print(str(v["allowed"]).lower(), v["reason"])
v = limiter.decide("GET", "/topic?id=42", ip="198.51.100.7")
print(str(v["allowed"]).lower(), v["reason"], retry_after(v))
v = Limiter(sys.argv[3]).decide("GET", "/topic?id=42")
print(str(v["allowed"]).lower(), v["reason"])
`
	askInNode = `
const [dir, address, nobody, token] = process.argv.slice(1);
const { limiter, retryAfter } = await import(dir + "/hotparam.mjs");
const decide = limiter("http://" + address, { token, timeout: 10000 });
let v = await decide({ uri: "/topic?id=42", ip: "198.51.100.7" });
console.log(v.allowed, v.reason);
v = await decide({ uri: "/topic?id=42", ip: "198.51.100.7" });
console.log(v.allowed, v.reason, retryAfter(v));
v = await limiter("http://" + nobody)({ uri: "/topic?id=42" });
console.log(v.allowed, v.reason);
`
)

func TestExampleClients_PrintVerdicts(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("../../examples/clients")
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"python3": askInPython, "node": askInNode} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interpreter := need(t, name)
			redis := redistest.Start(t)
			config := filepath.Join(t.TempDir(), "hotparam.yaml")
			if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
				t.Fatal(err)
			}
			const token = "0123456789abcdef"
			decide, nobody := freeport.Addr(t), freeport.Addr(t)
			program.Launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis.Addr(), "--decide.listen",
				decide,
				"--decide.token", token, "--admin.listen", freeport.Addr(t), "--gate.budget", "5s")
			program.Await(t, time.Minute, "the sidecar", func() bool {
				conn, err := net.Dial("tcp", decide)
				if err != nil {
					return false
				}
				return conn.Close() == nil
			})
			args := []string{"-c", script, dir, decide, nobody, token}
			if name == "node" {
				args = append([]string{"--input-type=module", "-e"}, args[1:]...)
			}
			out, err := exec.CommandContext(t.Context(), interpreter, args...).CombinedOutput()
			if want := strings.Join([]string{wantAllowed, wantDenied, wantNobody}, "\n") + "\n"; err != nil ||
				string(out) != want {
				t.Errorf("%v: %q, want %q", err, out, want)
			}
		})
	}
}
