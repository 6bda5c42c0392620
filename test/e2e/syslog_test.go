package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// The access log that nginx sends by syslog is counted by a collector, which finds its format.
func TestCollector_CountsSyslogOfNginx(t *testing.T) {
	t.Parallel()
	nginx, err := exec.LookPath("nginx")
	if err != nil && redistest.RequireAll() {
		t.Fatalf("%v: apt-get install nginx", err)
	}
	if err != nil {
		t.Skip("no nginx: install it")
	}
	j, syslog, front, admin := startJudge(t), freeport.Addr(t), freeport.Addr(t), freeport.Addr(t)
	launch(t, "collector", "--accesslog.syslog", syslog, "--statsd.addr", j.addr, "--admin.listen", admin)
	ready(t, admin)
	config := write(t, "nginx.conf", fmt.Sprintf(`daemon off; pid %s/pid; error_log stderr; events {}
http {
  access_log syslog:server=%s,tag=shop combined;
  server { listen %s; location / { return 204; } }
}`, t.TempDir(), syslog, front))
	program.Start(t, exec.Command(nginx, "-p", t.TempDir(), "-e", "stderr", "-c", config))
	n := 0
	program.Await(t, time.Minute, "20 requests", func() bool {
		if status, _ := do(t, http.MethodGet, "http://"+front+"/topic?id=42", "", nil); status == http.StatusNoContent {
			n++
		}
		return n == 20
	})
	program.Await(t, time.Minute, "their counts", func() bool {
		keys, total := j.snapshot()
		return total == 20 && keys["/topic?id=42"]
	})
	if bad := metric(t, admin, "hotparam_accesslog_malformed_total"); bad != "0" {
		t.Errorf("%s lines are malformed", bad)
	}
}
