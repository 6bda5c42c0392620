package gateways

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// installed is a gateway of Debian's packages.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if redistest.Complete() {
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
	cmd := exec.Command(haproxy, "-db", "-f", config, "-p", filepath.Join(t.TempDir(), "pid"))
	differences{
		fields:  true,
		refused: []string{"/topic?id=other&id=viral", "/topic?&id=viral&", "http://news.example/topic?id=viral"},
		passed:  []string{"/topic?id=cold"},
	}.judge(t, startGateway(t, cmd, front, blocked, 429), a, l)
}
