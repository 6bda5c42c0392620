package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// MasterName is the name by which Sentinels of tests know their master.
const MasterName = "hotparam"

// Sentinels are three Sentinels that watch a master with one replica.
type Sentinels struct {
	Nodes           []*Server
	Master, Replica *Server
}

// StartSentinels runs a master, its replica and three Sentinels, which replace a master that is silent for downAfter.
// Tests with Sentinels are skipped unless all tests are requested.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	SkipIfShort(t)
	s := &Sentinels{Master: Start(t)}
	host, port, err := net.SplitHostPort(s.Master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	s.Replica = Start(t, "--replicaof", host, port)
	for range 3 {
		s.Nodes = append(s.Nodes, startSentinel(t, host, port))
	}
	Eventually(t, "the Sentinels to know each other and the replica", func() bool {
		for _, n := range s.Nodes {
			about := strings.Fields(fmt.Sprint(n.Client().Do(context.Background(), "SENTINEL", "MASTER", MasterName).
				Val()))
			if got := strings.Join(about, " "); !strings.Contains(got, "num-slaves:1") &&
				!strings.Contains(got, "num-slaves 1") ||
				!strings.Contains(got, "num-other-sentinels:2") && !strings.Contains(got, "num-other-sentinels 2") {
				return false
			}
		}
		return true
	})
	return s
}

// downAfter is the time in milliseconds after which a Sentinel takes a silent master for dead. Sentinels never promote
// a replica whose link was down for ten times as long when they noticed, so a stall of the machine must be below that.
// Each step of a fail-over has five seconds. A fail-over that takes longer begins again after twice as long.
const downAfter = 1500

// startSentinel runs a Sentinel. Its settings are in a file, which the Sentinel rewrites later.
func startSentinel(t testing.TB, host, port string) *Server {
	t.Helper()
	s := &Server{t: t, bin: binary(t), dir: t.TempDir()}
	t.Cleanup(s.Stop)
	var err error
	for range 5 { // another process may take the port before the server does
		s.port = freeport.Port(t)
		s.file = filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nlogfile %s\n"+
			"sentinel monitor %[4]s %[5]s %[6]s 2\nsentinel down-after-milliseconds %[4]s %[7]d\n"+
			"sentinel failover-timeout %[4]s 5000\n",
			s.port, s.dir, filepath.Join(s.dir, "redis.log"), MasterName, host, port, downAfter)
		if err = os.WriteFile(s.file, []byte(text), 0o600); err != nil {
			break
		}
		if err = s.tryLaunch(); err == nil {
			return s
		}
	}
	t.Fatalf("redistest: %v", err)
	return nil
}

// Addrs returns host:port of the Sentinels.
func (s *Sentinels) Addrs() []string { return addrs(s.Nodes) }

// AwaitReplica waits until the replica has all that the master has now.
func (s *Sentinels) AwaitReplica(t testing.TB) {
	t.Helper()
	c := s.Master.Client().Conn() // WAIT asks about the writes of its connection
	defer c.Close()
	Eventually(t, "the replica to have all", func() bool {
		ctx := context.Background()
		if err := c.Set(ctx, "redistest:marker", 1, 0).Err(); err != nil {
			return false
		}
		replicas, err := c.Wait(ctx, 1, time.Second).Result()
		return err == nil && replicas > 0
	})
}

// AwaitSwitch waits until all Sentinels name the replica as the master. On a busy machine they begin a fail-over more
// than once, and do nothing for half a minute after each stall.
func (s *Sentinels) AwaitSwitch(t testing.TB) {
	t.Helper()
	within(t, 3*ready, "the Sentinels to name the replica", func() bool {
		for _, n := range s.Nodes {
			addr, err := n.Client().Do(context.Background(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).
				StringSlice()
			if err != nil || net.JoinHostPort(addr[0], addr[1]) != s.Replica.Addr() {
				return false
			}
		}
		return true
	})
}

// Switch makes the Sentinels replace a working master.
func (s *Sentinels) Switch(t testing.TB) {
	t.Helper()
	s.Nodes[0].do(t, "SENTINEL", "FAILOVER", MasterName)
}
