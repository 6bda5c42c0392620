package redisclient

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A replica at the address is found and reported, once, and so is its change into a master.
func TestWatch_ReportsAReadOnlyReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--replicaof", host, port)
	log := new(redistest.Log)
	c := openWith(t, Config{Addrs: []string{replica.Addr()}, Namespace: "test", Log: log.Logger(),
		Timeout: redistest.Patience})
	if err := c.CheckWrites(t.Context()); !errors.Is(err, errReadOnly) ||
		!strings.Contains(err.Error(), replica.Addr()) {
		t.Fatalf("a replica: %v", err)
	}
	redistest.Running(t, c.Watch)
	redistest.Eventually(t, "the replica to be found", func() bool { return c.Stats().ReadOnly })
	if err := replica.Client().Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the new master to be found", func() bool { return !c.Stats().ReadOnly })
	if err := c.CheckWrites(t.Context()); err != nil {
		t.Error(err)
	}
	said := log.String()
	if strings.Count(said, "level=WARN") != 1 || strings.Count(said, "takes writes again") != 1 {
		t.Errorf("the log says\n%s", said)
	}
	if ttl := replica.Client().PTTL(t.Context(), c.keys.Probe()).Val(); ttl <= 0 && ttl != -2 {
		t.Errorf("the probe lives for %v", ttl)
	}
}

// An unreachable server does not count as read-only: the last state stays.
func TestWatch_UnreachableIsNotReadOnly(t *testing.T) {
	t.Parallel()
	c := open(t, "127.0.0.1:1")
	if err := c.CheckWrites(t.Context()); err == nil || errors.Is(err, errReadOnly) {
		t.Errorf("nobody there: %v", err)
	}
	c.watchWrites(t.Context())
	if c.Stats().ReadOnly {
		t.Error("nobody there is taken for a replica")
	}
}
