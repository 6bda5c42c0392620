package integration_test

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/statsd"
	"github.com/hotparam/pipeline/test/internal/program"
)

// `hotparam doctor` reads the true state of a real server from its management interface.
func TestDoctorReadsARealStatsD(t *testing.T) {
	t.Parallel()
	chainNeeds(t, "node", "npm")
	script := statsdScript(t)
	dir, port, manage := t.TempDir(), strconv.Itoa(freeport.Port(t)), strconv.Itoa(freeport.Port(t))
	chainWrite(t, dir, "config.js", fmt.Sprintf(
		"{address: '127.0.0.1', mgmt_address: '127.0.0.1', port: %s, mgmt_port: %s, flushInterval: 1000, deleteIdleStats: true, backends: [], graphite: {legacyNamespace: false}}", port, manage))
	chainRun(t, dir, "node", script, dir+"/config.js")
	program.Await(t, time.Minute, "statsd", accepts(manage))
	conn, err := net.Dial("udp", loopback(port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("no line of statsd")); err != nil {
		t.Fatal(err)
	}
	in := statsd.Inspect(t.Context(), statsd.Target{Addr: loopback(port), Admin: loopback(manage)})
	if in.AddrErr != "" || in.AdminErr != "" || in.Health != "up" || !in.Known {
		t.Fatalf("inspection %+v", in)
	}
	if in.Settings["flushInterval"] != "1000" || in.Settings["deleteIdleStats"] != "true" ||
		in.Settings["graphite > legacyNamespace"] != "false" {
		t.Errorf("settings %v", in.Settings)
	}
	if in.BadLines == "" || in.BadLines == "0" {
		t.Errorf("bad lines %q", in.BadLines)
	}
}
