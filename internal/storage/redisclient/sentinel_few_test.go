package redisclient_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// patientWithSentinels opens a client whose thirds of a call are long enough for a busy machine.
func patientWithSentinels(t *testing.T, s *redistest.Sentinels) (*redisclient.Client, *redistest.Log) {
	t.Helper()
	log := new(redistest.Log)
	c, err := redisclient.Open(redisclient.Config{Addrs: s.Addrs(), SentinelMaster: redistest.MasterName,
		Namespace: "test", Timeout: 6 * time.Second, Log: log.Logger()})
	return redistest.MustOpen(t, c, err), log
}

// drop closes the connections that a server has, so that calls need new ones.
func drop(t *testing.T, s *redistest.Server) {
	t.Helper()
	err := s.Client().Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
	if err != nil {
		t.Fatal(err)
	}
}

// A healthy master is used although two of three Sentinels hang, or although all are down and it paused, because it
// claims to be a master. Log and statistics report that too few Sentinels answer, and an inspection names them.
func TestSentinels_UseMasterByItsRole(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	c, log := patientWithSentinels(t, s)
	redistest.Running(t, c.Watch)
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes[:2] {
		n.Freeze()
	}
	drop(t, s.Master)
	redistest.Eventually(t, "a call on a new connection, of one Sentinel's answer",
		func() bool { return c.Ping(t.Context()) == nil })
	redistest.Eventually(t, "the figure", func() bool { return c.Stats().SentinelsTooFew })
	if !strings.Contains(log.String(), "too few Sentinels answer: the master is used because") {
		t.Errorf("the log does not say it:\n%s", log)
	}
	if in := c.Inspect(t.Context()); in.Err != "" || in.Sentinels != 3 || len(in.Silent) != 2 {
		t.Errorf("the inspection blames %q of the master and %v of %d Sentinels", in.Err, in.Silent, in.Sentinels)
	}
	for _, n := range s.Nodes {
		n.Thaw()
	}
	redistest.Eventually(t, "the end of it", func() bool {
		return !c.Stats().SentinelsTooFew && strings.Contains(log.String(), "a majority of the Sentinels answers again")
	})
	for _, n := range s.Nodes {
		n.Kill()
	}
	s.Master.Freeze()
	drained, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if c.Ping(drained) == nil {
		t.Error("a frozen server answers")
	}
	s.Master.Thaw()
	drop(t, s.Master)
	redistest.Eventually(t, "a call without any Sentinel", func() bool { return c.Ping(t.Context()) == nil })
}

// A server that too few Sentinels name is not used if it claims to be a replica, because it was replaced.
func TestSentinels_RefuseReplacedMaster(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	for _, n := range s.Nodes[1:] { // the rest is no majority, which could undo the change
		n.Kill()
	}
	c, _ := patientWithSentinels(t, s)
	redistest.Eventually(t, "the master", func() bool { return c.Ping(t.Context()) == nil })
	host, port, _ := strings.Cut(s.Replica.Addr(), ":")
	if err := s.Master.Client().ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	drop(t, s.Master)
	redistest.Eventually(t, "the refusal", func() bool {
		err := c.Ping(t.Context())
		return err != nil && strings.Contains(err.Error(), "reports that it is not a master")
	})
}

// The documented user for Sentinels has all rights that a client needs.
func TestSentinels_AcceptTheDocumentedUser(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	if s.Nodes[0].Before(7, 0) {
		t.Skip("before Redis 7 subcommands have no rights of their own")
	}
	_, line, _ := strings.Cut(redistest.Documentation(t), "\nACL SETUSER sentinel-client")
	line, _, _ = strings.Cut(line, "\n")
	for _, n := range s.Nodes {
		args := append([]any{"ACL", "SETUSER", "sentinel-client"}, n.Known(line)...)
		if err := n.Client().Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	c, err := redisclient.Open(redisclient.Config{Addrs: s.Addrs(), SentinelMaster: redistest.MasterName,
		SentinelUsername: "sentinel-client", SentinelPassword: "pw", Namespace: "test", Timeout: 6 * time.Second})
	redistest.MustOpen(t, c, err)
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if in := c.Inspect(t.Context()); in.Err != "" || len(in.Silent) > 0 {
		t.Errorf("%s; %v", in.Err, in.Silent)
	}
}
