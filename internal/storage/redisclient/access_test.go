package redisclient

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func TestOpen_SendsPasswords(t *testing.T) {
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

func TestOpen_ConnectsToAUnixSocket(t *testing.T) {
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

// A cluster that does not say where its nodes are is an error that names the cause and the remedy, and never the answer
// that a key is absent.
func TestClient_ReportsUnknownEndpoints(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	if cluster.Nodes[0].Before(7, 0) {
		t.Skip("Redis 6 has no such setting")
	}
	for _, n := range cluster.Nodes {
		err := n.Client().ConfigSet(t.Context(), "cluster-preferred-endpoint-type", "unknown-endpoint").Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := openWith(t, Config{Addrs: cluster.Addrs(), Namespace: "test", Timeout: redistest.Patience})
	_, err := c.Redis().Get(t.Context(), NewKeys("test").RulesVersion()).Result()
	_, many := c.Redis().Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Get(t.Context(), NewKeys("test").RulesVersion())
		return nil
	})
	for _, err := range []error{err, many, c.Ping(t.Context())} {
		if err == nil || errors.Is(err, redis.Nil) || !strings.Contains(err.Error(), "endpoint-type ip") {
			t.Error(err)
		}
	}
}
