package redisclient

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// open makes a client that is closed when the test ends.
func open(t testing.TB, addrs ...string) *Client {
	t.Helper()
	return openWith(t, Config{Addrs: addrs, Namespace: "test", Timeout: 5 * time.Second}) // machines are busy
}

func openWith(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := Open(cfg)
	return redistest.MustOpen(t, c, err)
}
