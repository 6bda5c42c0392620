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

// sharding tells gates of lanes; every store of a client has it.
type sharding struct{ c *Client }

// Shards is how many lanes there are: 1 on one server.
func (s sharding) Shards() int {
	if s.c.spread == nil {
		return 1
	}
	return lanes
}

// Shard is the lane of a subject.
func (s sharding) Shard(subject *limit.Subject) int {
	if s.c.spread == nil {
		return 0
	}
	return s.c.spread.lane(subject)
}

// Server is the address of the master of a lane, as far as the client knows. It
// looks at what the client has: a context that is over makes no calls.
func (s sharding) Server(shard int) string {
	cluster, ok := s.c.rdb.(*redis.ClusterClient)
	if !ok || s.c.spread == nil {
		return ""
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	master, err := cluster.MasterForKey(over, s.c.spread.lanes[shard].keys.prefix)
	if err != nil {
		return "" // it has not seen the cluster yet
	}
	return master.Options().Addr
}
