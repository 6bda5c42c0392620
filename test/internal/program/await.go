package program

import (
	"net"
	"testing"
	"time"
)

// Await asks again until ok says yes, because the other side is a process away. A
// test that waited in vain fails, and names what it waited for.
func Await(t testing.TB, most time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(most)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v for: %s", most, what)
		}
	}
}

// FreePort is a port of loopback that is free for TCP and UDP just now.
func FreePort(t testing.TB) string {
	t.Helper()
	var free net.ListenConfig
	for range 20 {
		ln, err := free.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		conn, err := free.ListenPacket(t.Context(), "udp", ln.Addr().String())
		_ = ln.Close()
		if err == nil {
			_ = conn.Close()
			return port
		}
	}
	t.Fatal("no port is free for TCP and UDP")
	return ""
}

// FreeAddr is the address of such a port.
func FreeAddr(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", FreePort(t))
}
