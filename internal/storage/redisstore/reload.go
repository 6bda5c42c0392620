package redisstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// reloadEvery is how often a client that meets errors looks up anew which nodes
// of a cluster serve what. By itself it would do so when the knowledge is ten
// seconds old, and until then ask a node that is gone.
const reloadEvery = 100 * time.Millisecond

// reloader is a hook of a cluster client that looks up the cluster again when a
// call fails in a way that another node might not.
type reloader struct {
	cluster *redis.ClusterClient
	last    atomic.Int64 // when it did so, unix nanoseconds
}

// DialHook changes nothing.
func (r *reloader) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook looks at the error of a command.
func (r *reloader) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.met(ctx, err)
		return err
	}
}

// ProcessPipelineHook looks at the error of a pipeline.
func (r *reloader) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		r.met(ctx, err)
		return err
	}
}

// met reloads, in a goroutine of the cluster client, where an error calls for it
// and the last time is long enough ago.
func (r *reloader) met(ctx context.Context, err error) {
	if err == nil || !misplaced(err) {
		return
	}
	now, last := time.Now().UnixNano(), r.last.Load()
	if now-last >= int64(reloadEvery) && r.last.CompareAndSwap(last, now) {
		r.cluster.ReloadState(context.WithoutCancel(ctx))
	}
}

// misplaced are errors that may come of asking the wrong node: it does not answer
// at all, or not for these keys.
func misplaced(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		return true
	}
	for _, prefix := range []string{"CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN", "MOVED", "TRYAGAIN"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	var reply redis.Error
	return !errors.As(err, &reply) // broken connections have no type of their own
}
