package statsd

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// adminAddress returns the address of a server that answers like the management interface of Node.js statsd.
func adminAddress(t *testing.T, answers map[string]string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				if _, err := conn.Write([]byte(answers[lines.Text()])); err != nil {
					break
				}
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return ln.Addr().String()
}

func TestInspect_ReadsTheManagementInterface(t *testing.T) {
	t.Parallel()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	in := Inspect(t.Context(), Target{Addr: udp.LocalAddr().String(), Admin: adminAddress(t, map[string]string{
		"health": "health: up\n",
		"config": "\nflushInterval: 10000\ndeleteIdleStats: true\ngraphite > legacyNamespace: false\nbackends > 0: ./backends/graphite\n",
		"stats":  "uptime: 3\nmessages.last_msg_seen: 1\nmessages.bad_lines_seen: 7\nEND\n\n",
	})})
	if in.AddrErr != "" || in.AdminErr != "" || in.Health != "up" || in.BadLines != "7" || !in.Known {
		t.Fatalf("inspection %+v", in)
	}
	if in.Settings["flushInterval"] != "10000" || in.Settings["graphite > legacyNamespace"] != "false" ||
		in.Settings["deleteIdleStats"] != "true" {
		t.Errorf("settings %v", in.Settings)
	}
}

func TestInspect_ReportsWhatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := udp.LocalAddr().String()
	_ = udp.Close()
	in := Inspect(t.Context(), Target{Addr: gone, Admin: "127.0.0.1:1", File: filepath.Join(t.TempDir(), "config.js")})
	if !strings.Contains(in.AddrErr, "no server listens") || in.AdminErr == "" || in.FileErr == "" || in.Known {
		t.Errorf("inspection %+v", in)
	}
}

func TestInspect_ReadsConfigJS(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.js")
	text := `/* deleteIdleStats: true */
{
  graphiteHost: process.env.GRAPHITE || "localhost", // flushInterval: 1
  port: 8125
, "flushInterval": 1000
, keyNameSanitize: false
, mgmt_port: 8126
, graphite: { legacyNamespace: false, globalPrefix: 'stats' }
, backends: [ "./backends/graphite" ]
}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	in := Inspect(t.Context(), Target{File: path})
	for name, want := range map[string]string{"flushInterval": "1000", "keyNameSanitize": "false",
		"graphite > legacyNamespace": "false", "graphite > globalPrefix": "stats", "deleteIdleStats": ""} {
		if in.Settings[name] != want {
			t.Errorf("%s is %q, want %q", name, in.Settings[name], want)
		}
	}
	if !slices.Contains(in.Unread, "graphiteHost") {
		t.Errorf("unread %q", in.Unread)
	}
}
