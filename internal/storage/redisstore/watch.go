package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/wait"
)

// watchEvery is how often Watch looks.
const watchEvery = time.Second

// errReadOnly is the error of a server that refuses writes: a replica.
var errReadOnly = errors.New("redisstore: the server is a read-only replica: it refuses all writes; " +
	"set redis.addr to its master, or redis.sentinel_master and the Sentinels that know it")

// CheckWrites is nil if the server takes what programs have to write: one round trip,
// which leaves a key of no meaning for a second.
func (c *Client) CheckWrites(ctx context.Context) error {
	err := c.rdb.Set(ctx, c.keys.Probe(), "", time.Second).Err()
	switch {
	case err == nil:
		return nil
	case isReadOnly(err):
		return fmt.Errorf("%w (%s)", errReadOnly, strings.Join(c.cfg.Addrs, ", "))
	}
	return fmt.Errorf("redisstore: write to %v: %w", c.cfg.Addrs, err)
}

// isReadOnly reports whether a replica refused to write, also within a script.
func isReadOnly(err error) bool { return err != nil && strings.Contains(err.Error(), "READONLY") }

// Stats is what Watch found last.
type Stats struct {
	ReadOnly bool // the server refuses writes
}

// Stats reads the figures.
func (c *Client) Stats() Stats { return Stats{ReadOnly: c.readOnly.Load()} }

// Watch looks once a second whether the server takes writes, and under Sentinels which
// server it is, until ctx ends. It logs when that changes.
func (c *Client) Watch(ctx context.Context) error {
	master := ""
	for running := true; running; running = wait.For(ctx, watchEvery) {
		c.watchMaster(ctx, &master)
		c.watchWrites(ctx)
	}
	return nil
}

// watchMaster drops what is connected to a server that is the master no more.
func (c *Client) watchMaster(ctx context.Context, known *string) {
	if c.sentinels == nil {
		return
	}
	master, err := c.sentinels.look(ctx)
	if err != nil || master == *known {
		return // who needs a connection gets the error
	}
	c.cfg.Log.Info("Redis: the Sentinels' master", "master", master, "before", *known, "name", c.cfg.SentinelMaster)
	*known = master
}

// watchWrites notes whether the server refuses writes. Other errors say nothing about
// that, and are told by those who meet them.
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
