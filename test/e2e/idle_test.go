package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// Ten thousand clients that keep their connections open cost bounded memory and slow no other: a
// further one is answered at once, and takes the place of the longest idle one.
func TestListener_HoldsTenThousandIdleConnections(t *testing.T) {
	const clients, most = 10_000, 40 << 10 // bytes for each
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < clients+1000 {
		t.Skipf("this process may open %d files: ulimit -n %d", files.Cur, clients+1000)
	}
	if !redistest.RequireAll() {
		t.Skip("opens 10,000 connections: set HOTPARAM_REQUIRE_SERVERS=1, or run make integration")
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "page")
	}))
	t.Cleanup(upstream.Close)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	p := launch(
		t,
		"hotparam",
		"serve",
		"--config",
		write(t, "hotparam.yaml", pipelineRules),
		"--upstream",
		upstream.URL,
		"--listen",
		addr,
		"--admin.listen",
		admin,
		"--state.dir",
		t.TempDir(),
		"--proxy.max_connections",
		fmt.Sprint(clients),
		"--proxy.max_connections_client",
		"0",
		"--proxy.idle_timeout",
		"10m",
	)
	ready(t, admin)
	visit := func() net.Conn {
		t.Helper()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(conn, "GET /a HTTP/1.1\r\nHost: idle.example\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v", res.StatusCode, err)
		}
		return conn
	}
	visit()
	before := p.Memory()
	for range clients - 1 {
		visit()
	}
	each := (p.Memory() - before) / clients
	t.Logf("%d idle connections: %d bytes each", clients, each)
	if each > most {
		t.Errorf("an idle connection takes %d bytes, more than %d", each, most)
	}
	began := time.Now()
	for range 100 {
		visit()
	}
	t.Logf("100 further clients were answered in %v", time.Since(began))
	metrics := func() string { _, text := get(t, "http://"+admin+"/metrics"); return text }
	if text := metrics(); !strings.Contains(text, `hotparam_listener_evicted_total{listener="proxy"} 100`) ||
		!strings.Contains(text, `hotparam_listener_rejected_total{listener="proxy"} 0`) {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "hotparam_listener_") && strings.Contains(line, "proxy") {
				t.Error(line)
			}
		}
	}
}
