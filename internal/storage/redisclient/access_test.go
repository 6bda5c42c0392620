package redisclient

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func TestPasswords(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if err := s.Client().ConfigSet(context.Background(), "requirepass", "s3cret").Err(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, "redis://:s3cret@"+s.Addr()+"/3").Ping(context.Background()); err != nil {
		t.Error(err)
	}
	for user, want := range map[string]string{"": "NOAUTH", ":wrong@": "WRONGPASS"} {
		if err := open(t, "redis://"+user+s.Addr()).Ping(context.Background()); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", user, err, want)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hp") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "r.sock")
	redistest.Start(t, "--unixsocket", socket)
	if err := open(t, "unix://"+socket).Ping(context.Background()); err != nil {
		t.Error(err)
	}
}
