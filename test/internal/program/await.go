package program

import (
	"net"
	"sync"
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

// given are the ports that were given: a kernel may offer one again before its program listens there.
var given sync.Map

// FreePort is a port of loopback that is free for TCP and UDP just now, and that was not given before.
func FreePort(t testing.TB) string {
	t.Helper()
	var free net.ListenConfig
	for range 100 {
		ln, err := free.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		conn, err := free.ListenPacket(t.Context(), "udp", ln.Addr().String())
		_ = ln.Close()
		if err != nil {
			continue
		}
		_ = conn.Close()
		if _, again := given.LoadOrStore(port, true); !again {
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
