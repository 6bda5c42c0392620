package redistest

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// slots is the number of hash slots of a Redis cluster.
const slots = 16384

// Cluster is three masters that share the hash slots, and if it has six nodes, a replica of each after them.
type Cluster struct {
	Nodes []*Server
}

// StartClusterOfSix runs three masters and a replica of each, which takes over half a second after the end of its
// master.
func StartClusterOfSix(t testing.TB) *Cluster {
	t.Helper()
	args := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "500", "--cluster-replica-validity-factor",
		"0", "--repl-diskless-sync-delay", "0"}
	c := startCluster(t, args...)
	masters := len(c.Nodes)
	for range masters {
		n := Start(t, args...)
		n.do(t, "CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port)
		c.Nodes = append(c.Nodes, n)
	}
	Eventually(t, "the cluster to form", c.whole)
	for i, n := range c.Nodes[masters:] {
		n.do(t, "CLUSTER", "REPLICATE", c.Nodes[i].id(t))
	}
	for i, n := range c.Nodes[masters:] {
		Eventually(t, "a replica to follow its master", func() bool {
			return strings.Contains(n.Client().Info(context.Background(), "replication").Val(),
				"master_link_status:up") &&
				strings.Contains(c.Nodes[i].Client().Info(context.Background(), "replication").Val(), "state=online")
		})
	}
	return c
}

// Failover kills the master of a key, once its replica has all writes, and waits until the replica serves the slots.
func (c *Cluster) Failover(t testing.TB, key string) {
	t.Helper()
	m := c.Master(t, key)
	conn := m.Client().Conn() // WAIT is about the writes of its own connection: a write after all others
	defer func() { _ = conn.Close() }()
	last := key[:strings.IndexByte(key, '}')+1] + "last" // in the slot of key
	if err := conn.Set(context.Background(), last, "", time.Minute).Err(); err != nil {
		t.Fatalf("redistest: write to %s: %v", m.Addr(), err)
	}
	if n, err := conn.Wait(context.Background(), 1, ready).Result(); err != nil || n < 1 {
		t.Fatalf("redistest: %d replicas have all of %s: %v", n, m.Addr(), err)
	}
	m.Kill()
	for i, n := range c.Nodes {
		if n == m {
			c.Nodes = append(c.Nodes[:i:i], c.Nodes[i+1:]...)
		}
	}
	Eventually(t, "the replica to take over", func() bool {
		for _, n := range c.Nodes {
			if n.Client().Exists(context.Background(), key).Err() == nil &&
				strings.Contains(n.info(), "cluster_state:ok") {
				return true
			}
		}
		return false
	})
}

func (s *Server) id(t testing.TB) string {
	t.Helper()
	id, err := s.Client().Do(context.Background(), "CLUSTER", "MYID").Text()
	if err != nil {
		t.Fatalf("redistest: id of %s: %v", s.Addr(), err)
	}
	return id
}

// StartCluster runs a cluster of three and waits until every node sees all slots served. Tests with a cluster are
// skipped unless all tests are requested.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	return startCluster(t, "--cluster-enabled", "yes")
}

func startCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	if _, bench := t.(*testing.B); !bench {
		SkipIfShort(t) // a cluster takes two seconds to form
	}
	const size = 3
	c := &Cluster{}
	for range size {
		c.Nodes = append(c.Nodes, Start(t, args...))
	}
	for i, n := range c.Nodes {
		add := []any{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE is new in Redis 7
		for slot := i * slots / size; slot < (i+1)*slots/size; slot++ {
			add = append(add, slot)
		}
		n.do(t, add...)
		n.do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, n := range c.Nodes[1:] {
		n.do(t, "CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port)
	}
	Eventually(t, "the cluster to form", c.whole)
	return c
}

// Addrs returns host:port of every node.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

func addrs(nodes []*Server) (list []string) {
	for _, n := range nodes {
		list = append(list, n.Addr())
	}
	return list
}

// Master returns the node that serves a key.
func (c *Cluster) Master(t testing.TB, key string) *Server {
	t.Helper()
	for _, n := range c.Nodes {
		if err := n.Client().Exists(context.Background(), key).Err(); err == nil {
			return n // the others answer MOVED
		}
	}
	t.Fatalf("redistest: no node serves %q", key)
	return nil
}

// Move moves the slot of a key, which must be its only key, to another node. It calls halfway when the key has moved
// and the clients have not been notified.
func (c *Cluster) Move(t testing.TB, key string, to *Server, halfway func()) {
	t.Helper()
	from := c.Master(t, key)
	slot, err := from.Client().ClusterKeySlot(context.Background(), key).Result()
	if err != nil {
		t.Fatalf("redistest: slot of %q: %v", key, err)
	}
	to.do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.id(t))
	from.do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.id(t))
	from.do(t, "MIGRATE", "127.0.0.1", to.port, key, 0, ready.Milliseconds())
	halfway()
	for _, n := range []*Server{to, from} {
		n.do(t, "CLUSTER", "SETSLOT", slot, "NODE", to.id(t))
	}
}

// FaultProxy returns a proxy of the master of a key. Clients that ask the cluster for its nodes get the address of the
// proxy.
func (c *Cluster) FaultProxy(t testing.TB, key string) *FaultProxy {
	t.Helper()
	m := c.Master(t, key)
	if m.Before(6, 2) {
		t.Skip("its nodes take a changed port for news only when they start again")
	}
	f := StartFaultProxy(t, m.Addr())
	_, port, err := net.SplitHostPort(f.Addr())
	if err != nil {
		t.Fatalf("redistest: front: %v", err)
	}
	m.do(t, "CONFIG", "SET", "cluster-announce-port", port)
	Eventually(t, "the nodes to tell of the front", func() bool {
		for _, n := range c.Nodes {
			text, err := n.Client().Do(context.Background(), "CLUSTER", "NODES").Text()
			if err != nil || !strings.Contains(text, ":"+port+"@") {
				return false
			}
		}
		return true
	})
	return f
}

// whole reports whether every node knows all nodes and all slots are served.
func (c *Cluster) whole() bool {
	for _, n := range c.Nodes {
		info := n.info()
		if !strings.Contains(info, "cluster_state:ok") ||
			!strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(c.Nodes))) {
			return false
		}
	}
	return true
}

func (s *Server) info() string {
	info, err := s.Client().ClusterInfo(context.Background()).Result()
	if err != nil {
		return err.Error()
	}
	return info
}

func (s *Server) do(t testing.TB, args ...any) {
	t.Helper()
	if err := s.Client().Do(context.Background(), args...).Err(); err != nil {
		t.Fatalf("redistest: %v on %s: %v", args, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), err)
	}
}
