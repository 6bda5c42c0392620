package redislimits

import (
	"context"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// On a cluster limits lie in shards, each a hash tag of its own. Package gate asks in
// which shard a subject lies, and on which server that is, so that a node that is out
// takes only its own limits along. On one server there is one shard.

// shardError is why a request with subjects in several shards was not decided.
type shardError struct {
	error
	shard int
}

// Unwrap is what the shard said.
func (e *shardError) Unwrap() error { return e.error }

// FailedShard is the shard that failed; others answered, or were not asked.
func (e *shardError) FailedShard() int { return e.shard }

// Shards is how many shards there are: 1 on one server.
func (l *Limiter) Shards() int { return len(l.shards) }

// Shard is the shard of a subject.
func (l *Limiter) Shard(subject *limit.Subject) int {
	if len(l.shards) == 1 {
		return 0
	}
	var name [128]byte
	return shardOf(appendSubject(name[:0], subject))
}

func (l *Limiter) limiterOf(subject *limit.Subject) *shardLimiter { return l.shards[l.Shard(subject)] }

// Server is the address of the master of a shard, as far as the client knows. It
// looks at what the client has: a context that is over makes no calls.
func (l *Limiter) Server(shard int) string {
	if l.nodes == nil {
		return ""
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	master, err := l.nodes.MasterForKey(over, l.shards[shard].keys.prefix)
	if err != nil {
		return "" // it has not seen the cluster yet
	}
	return master.Options().Addr
}
