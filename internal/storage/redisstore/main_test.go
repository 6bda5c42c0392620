package redisstore

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

// TestMain also fails when go-redis wrote to its logger, whatever the tests did to
// their servers.
func TestMain(m *testing.M) {
	flag.Parse()
	if !redistest.Complete() {
		// What is left in a short run waits for servers rather than for a processor.
		_ = flag.Set("test.parallel", "6") // does not fail for such a name and number
	}
	goleak.VerifyTestMain(redistest.Quietly(m))
}

// open makes a client that is closed when the test ends.
func open(t testing.TB, addrs ...string) *Client {
	t.Helper()
	return openWith(t, Config{Addrs: addrs, Namespace: "test", Timeout: 5 * time.Second}) // machines are busy
}

func openWith(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}
