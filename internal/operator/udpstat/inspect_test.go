package udpstat

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const snmp = `Ip: Forwarding DefaultTTL
Ip: 1 64
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 1000 2 7 900 5 0 0 0 0
UdpLite: InDatagrams NoPorts
UdpLite: 0 0
`

func fakeProc(t *testing.T, rmem, snmp string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"sys/net/core/rmem_max": rmem, "net/snmp": snmp} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInspect_ReadsTheKernel(t *testing.T) {
	t.Parallel()
	in := inspectProc(context.Background(), fakeProc(t, "212992\n", snmp), 65536, 0)
	want := UDP{InDatagrams: 1000, InErrors: 7, RcvbufErrors: 5}
	if in.MaxBuffer != 212992 || in.Before != want || in.After != want {
		t.Errorf("inspection %+v", in)
	}
	if runtime.GOOS == "linux" && (in.Err != "" || in.Granted < 65536) {
		t.Errorf("granted %d, problems %q", in.Granted, in.Err)
	}
}

func TestInspect_ReportsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for name, proc := range map[string]string{
		"rmem_max": fakeProc(t, "much", snmp), "no Udp lines": fakeProc(t, "1", "Ip: 1\n"),
		"InErrors": fakeProc(t, "1", "Udp: InErrors\nUdp: x\n"), "no such file": t.TempDir(),
	} {
		if in := inspectProc(context.Background(), proc, 4096, 0); !strings.Contains(in.Err, name) {
			t.Errorf("problems %q, want them to name %q", in.Err, name)
		}
	}
}
