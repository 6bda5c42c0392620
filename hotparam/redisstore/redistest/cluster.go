package redistest

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// slots is how many hash slots a Redis cluster has.
const slots = 16384

// Cluster is three masters without replicas that share the hash slots.
type Cluster struct {
	Nodes []*Server
}

// StartCluster runs a cluster of three and waits until every node sees all
// slots served.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	const size = 3
	c := &Cluster{}
	for range size {
		c.Nodes = append(c.Nodes, Start(t, "--cluster-enabled", "yes"))
	}
	for i, n := range c.Nodes {
		n.do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/size, (i+1)*slots/size-1)
		n.do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, n := range c.Nodes[1:] {
		n.do(t, "CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port, c.Nodes[0].bus)
	}
	c.await(t)
	return c
}

// Addrs lists host:port of every node.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// Master finds the node that serves a key.
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

func (c *Cluster) await(t testing.TB) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(ready)
	for !c.whole() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("redistest: the cluster does not form: %s", c.Nodes[0].info())
		}
	}
}

// whole is whether every node knows all nodes and all slots are served.
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
