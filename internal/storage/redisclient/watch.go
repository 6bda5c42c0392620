package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/wait"
)

const watchEvery = time.Second

var errReadOnly = errors.New("redisclient: the server is a read-only replica: it refuses all writes; " +
	"set redis.addr to its master, or redis.sentinel_master and the Sentinels that know it")

// CheckWrites returns nil if the server takes the writes of programs. It takes one round trip, which leaves a key
// without meaning for a second.
func (c *Client) CheckWrites(ctx context.Context) error {
	err := c.rdb.Set(ctx, c.keys.Probe(), "", time.Second).Err()
	switch {
	case err == nil:
		return nil
	case isReadOnly(err):
		return fmt.Errorf("%w (%s)", errReadOnly, strings.Join(c.cfg.Addrs, ", "))
	}
	return fmt.Errorf("redisclient: write to %v: %w", c.cfg.Addrs, err)
}

// isReadOnly reports whether a replica refused to write, also within a script.
func isReadOnly(err error) bool { return err != nil && strings.Contains(err.Error(), "READONLY") }

// Stats holds the last findings of Watch.
type Stats struct {
	ReadOnly        bool `metric:"hotparam_redis_read_only" help:"1 while Redis refuses writes, as a read-only replica does."`
	SentinelsTooFew bool `metric:"hotparam_redis_sentinels_too_few" help:"1 while fewer than a majority of the Sentinels answer, so that a replaced master may go unnoticed."`
}

func (c *Client) Stats() Stats {
	return Stats{ReadOnly: c.readOnly.Load(), SentinelsTooFew: c.sentinelsTooFew.Load()}
}

// Watch checks once a second, until ctx ends, whether the server takes writes, and under Sentinels which server is the
// master. It logs changes.
func (c *Client) Watch(ctx context.Context) error {
	master := ""
	for running := true; running; running = wait.For(ctx, watchEvery) {
		c.watchMaster(ctx, &master)
		c.watchWrites(ctx)
	}
	return nil
}

// watchMaster drops connections to a server that is no longer the master, and logs which server is the master and when
// too few Sentinels answer.
func (c *Client) watchMaster(ctx context.Context, known *string) {
	if c.sentinels == nil {
		return
	}
	master, err := c.sentinels.refreshMaster(ctx)
	if ctx.Err() != nil {
		return // the end of the program is no failure of the Sentinels
	}
	log := c.cfg.Log.With("name", c.cfg.SentinelMaster)
	switch before := c.sentinelsTooFew.Swap(master.tooFew); {
	case before == master.tooFew:
	case err != nil:
		log.Error("Redis: too few Sentinels answer, and no server is known to be the master: new connections fail",
			"err", err)
	case master.tooFew:
		log.Error("Redis: too few Sentinels answer: the master is used because it reports itself as one; "+
			"if they replace it, that is not noticed", "master", master.addr)
	default:
		log.Info("Redis: a majority of the Sentinels answers again")
	}
	if err != nil || master.addr == *known {
		return // callers that need a connection get the error
	}
	log.Info("Redis: the Sentinels' master", "master", master.addr, "before", *known)
	*known = master.addr
}

// watchWrites records whether the server denies writes. Other errors do not show that, and the calls that fail report
// them.
func (c *Client) watchWrites(ctx context.Context) {
	err := c.CheckWrites(ctx)
	readOnly := errors.Is(err, errReadOnly)
	if err != nil && !readOnly || c.readOnly.Swap(readOnly) == readOnly {
		return
	}
	if readOnly {
		c.cfg.Log.Warn("Redis refuses writes: limits are not shared and nothing is published until it takes them",
			"err", err)
		return
	}
	c.cfg.Log.Info("Redis takes writes again", "addr", c.cfg.Addrs)
}

// reloadEvery is the minimum interval at which a client that meets errors reloads which nodes of a cluster serve which
// keys. By itself it would do so when its state is a minute old, and until then ask a node that is gone.
const reloadEvery = 100 * time.Millisecond

// reloader is a hook of a cluster client that reloads the cluster's state when a call fails in a way that another node
// might not.
type reloader struct {
	cluster *redis.ClusterClient
	last    atomic.Int64 // time of the last reload, unix nanoseconds
}

// DialHook changes nothing.
func (r *reloader) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook checks the error of a command.
func (r *reloader) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.reloadIfMisplaced(ctx, err)
		return explainMovingSlot(cmd, err)
	}
}

// ProcessPipelineHook checks the error of a pipeline.
func (r *reloader) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		r.reloadIfMisplaced(ctx, err)
		for _, cmd := range cmds {
			_ = explainMovingSlot(cmd, cmd.Err())
		}
		return err
	}
}

// reloadIfMisplaced reloads, in a goroutine of the cluster client, if an error calls for it and the last reload is long
// enough ago.
func (r *reloader) reloadIfMisplaced(ctx context.Context, err error) {
	if err == nil || !isMisplaced(err) {
		return
	}
	now, last := time.Now().UnixNano(), r.last.Load()
	if now-last >= int64(reloadEvery) && r.last.CompareAndSwap(last, now) {
		r.cluster.ReloadState(context.WithoutCancel(ctx))
	}
}

// isMisplaced reports whether an error may come from asking the wrong node: it does not answer at all, or not for these
// keys.
func isMisplaced(err error) bool {
	_, network := errors.AsType[net.Error](err)
	if network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		return true
	}
	return !isReply(err) || // broken connections have no type of their own
		slices.ContainsFunc([]string{"CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN", "MOVED", "TRYAGAIN"},
			func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}
