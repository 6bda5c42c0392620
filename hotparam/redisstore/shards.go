package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// The stores of this package are in shards for those who want to know which of
// their limits a node of a cluster that is out takes along: package gate does. A
// shard is a lane; on one server there is one.

// laneError is why a request with subjects in several lanes was not decided.
type laneError struct {
	error
	lane int
}

// Unwrap is what the lane said.
func (e *laneError) Unwrap() error { return e.error }

// FailedShard is the lane that failed; others answered, or were not asked.
func (e *laneError) FailedShard() int { return e.lane }

// Shards is how many lanes there are.
func (s *spread) Shards() int { return lanes }

// Shard is the lane of a subject.
func (s *spread) Shard(subject *limit.Subject) int { return s.lane(subject) }

// Server is the address of the master of a lane, as far as the client knows. It
// looks at what the client has: a context that is over makes no calls.
func (s *spread) Server(shard int) string {
	cluster, ok := s.c.rdb.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	master, err := cluster.MasterForKey(over, s.lanes[shard].keys.prefix)
	if err != nil {
		return "" // it has not seen the cluster yet
	}
	return master.Options().Addr
}

// Shards is how many lanes there are: 1 on one server.
func (l *Leases) Shards() int { return l.c.shards() }

// Shard is the lane of a subject.
func (l *Leases) Shard(subject *limit.Subject) int { return l.c.shard(subject) }

// Server is the address of the master of a lane, as far as the client knows.
func (l *Leases) Server(shard int) string { return l.c.serverOf(shard) }

// Shards is how many lanes there are: 1 on one server.
func (l *SharedLimiter) Shards() int { return l.c.shards() }

// Shard is the lane of a subject.
func (l *SharedLimiter) Shard(subject *limit.Subject) int { return l.c.shard(subject) }

// Server is the address of the master of a lane, as far as the client knows.
func (l *SharedLimiter) Server(shard int) string { return l.c.serverOf(shard) }

func (c *Client) shards() int {
	if c.spread == nil {
		return 1
	}
	return c.spread.Shards()
}

func (c *Client) shard(subject *limit.Subject) int {
	if c.spread == nil {
		return 0
	}
	return c.spread.lane(subject)
}

func (c *Client) serverOf(shard int) string {
	if c.spread == nil {
		return ""
	}
	return c.spread.Server(shard)
}
