package redisserver

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cluster is three masters that share the hash slots, each with a replica that takes over half a second after its
// master has ended.
type Cluster struct {
	Nodes []*Server
}

const (
	masters = 3
	slots   = 16384
	forming = 20 * time.Second
)

// StartCluster runs six servers and waits until every node knows all others and all slots are served.
func StartCluster(ctx context.Context, path string) (*Cluster, error) {
	c := &Cluster{}
	if err := c.form(ctx, path); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) form(ctx context.Context, path string) error {
	for range 2 * masters {
		n, err := Start(ctx, path, "--cluster-enabled", "yes", "--cluster-node-timeout", "500",
			"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
			"--cluster-require-full-coverage", "no")
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
	}
	for i, n := range c.Nodes[:masters] {
		if err := n.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1); err != nil {
			return err
		}
		if err := n.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
	}
	first := c.Nodes[0]
	for _, n := range c.Nodes[1:] {
		if err := n.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", first.port, first.bus); err != nil {
			return err
		}
	}
	if err := await(ctx, "the cluster to form", c.whole); err != nil {
		return err
	}
	return c.replicate(ctx)
}

// replicate makes the second half of the nodes replicas of the first half.
func (c *Cluster) replicate(ctx context.Context) error {
	for i, n := range c.Nodes[masters:] {
		id, err := c.Nodes[i].ask(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if err := n.Do(ctx, "CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
	}
	return await(ctx, "the replicas to follow", func(ctx context.Context) bool {
		for i, n := range c.Nodes[masters:] {
			theirs, err := n.ask(ctx, "INFO", "replication")
			ours, err2 := c.Nodes[i].ask(ctx, "INFO", "replication")
			if err != nil || err2 != nil || !strings.Contains(theirs, "master_link_status:up") ||
				!strings.Contains(ours, "state=online") {
				return false
			}
		}
		return true
	})
}

// Addrs returns host:port of every node.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.Addr
	}
	return addrs
}

// Holder returns the master that has a key matching a pattern, and its number.
func (c *Cluster) Holder(ctx context.Context, pattern string) (int, error) {
	for i, n := range c.Nodes[:masters] {
		r := n.Client()
		keys, err := r.Keys(ctx, pattern).Result()
		_ = r.Close() // it has answered
		if err != nil {
			return 0, fmt.Errorf("redisserver: keys %s on %s: %w", pattern, n.Addr, err)
		}
		if len(keys) > 0 {
			return i, nil
		}
	}
	return 0, fmt.Errorf("redisserver: no master has a key like %s", pattern)
}

// Replaced waits until the replica of master i has replaced it.
func (c *Cluster) Replaced(ctx context.Context, i int) error {
	n := c.Nodes[masters+i]
	return await(ctx, "the replica to take over", func(ctx context.Context) bool {
		role, err := n.ask(ctx, "INFO", "replication")
		state, err2 := n.ask(ctx, "CLUSTER", "INFO")
		return err == nil && err2 == nil && strings.Contains(role, "role:master") &&
			strings.Contains(state, "cluster_state:ok")
	})
}

// Stop stops all nodes.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes {
		n.Stop()
	}
}

func (c *Cluster) whole(ctx context.Context) bool {
	for _, n := range c.Nodes {
		info, err := n.ask(ctx, "CLUSTER", "INFO")
		if err != nil || !strings.Contains(info, "cluster_state:ok") ||
			!strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(c.Nodes))) {
			return false
		}
	}
	return true
}

func (s *Server) ask(ctx context.Context, args ...any) (string, error) {
	c := s.Client()
	defer c.Close()
	return c.Do(ctx, args...).Text()
}

// await checks every few milliseconds until so returns true.
func await(ctx context.Context, what string, so func(context.Context) bool) error {
	for end := time.Now().Add(forming); !so(ctx); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("redisserver: waited %v for %s", forming, what)
		}
	}
	return nil
}
