package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is the connection to Redis that everything of this package hangs on.
// Any number of goroutines may share it. Close it when nothing uses it any
// more; what still runs on it then fails with an error.
type Client struct {
	rdb  redis.UniversalClient
	keys keys
	cfg  Config
	log  *slog.Logger
	// now is the process clock. It stamps what people read (audit entries) and
	// measures ages; limits, versions and expiries use the clock of Redis.
	now       func() time.Time
	scripts   scripts
	limits    *shardLimiter
	cluster   *clusterLimiter // nil: limits has all, on one server
	hot       followState
	overrides followState
	counters  counters
	// overridesKnown is what this process enforces; nil: nothing follows.
	// overridesBehind says that Redis has an older state. Until overridesDenied
	// (unix nanoseconds) this process does not try to write it again.
	overridesKnown  atomic.Pointer[overrideCopy]
	overridesBehind atomic.Bool
	overridesDenied atomic.Int64
}

// Open makes a client. It does not need the server: only a bad Config is an
// error, and connections are made when they are first needed.
func Open(cfg Config) (*Client, error) {
	cfg, options, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	return newClient(redis.NewUniversalClient(options), cfg), nil
}

// Over makes a client of the caller's connections, for Limiter, InFlight and
// Throttle. The caller's options hold: a context ends a call only if the options have
// ContextTimeoutEnabled. Close leaves the connections open. Of cfg only Namespace,
// Timeout, Budget and Log count.
func Over(rdb redis.UniversalClient, cfg Config) (*Client, error) {
	cfg.Like = rdb
	cfg, _, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	c := newStore(callers{rdb, once{cfg.Timeout}}, cfg)
	if _, ok := rdb.(*redis.ClusterClient); ok {
		c.cluster = newClusterLimiter(c, cfg.Namespace)
	}
	return c, nil
}

// newClient makes a client of connections that are its own.
func newClient(rdb redis.UniversalClient, cfg Config) *Client {
	c := newStore(rdb, cfg)
	c.rdb.AddHook(once{cfg.Timeout})
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		cluster.AddHook(&reloader{cluster: cluster})
		c.cluster = newClusterLimiter(c, cfg.Namespace)
	}
	return c
}

func newStore(rdb redis.UniversalClient, cfg Config) *Client {
	c := &Client{
		rdb:     rdb,
		keys:    newKeys(cfg.Namespace),
		cfg:     cfg,
		log:     cfg.Log,
		now:     time.Now,
		scripts: loadScripts(),
	}
	c.limits = newLimiter(c, c.keys)
	return c
}

// Close ends all connections. Followers and reporters must have returned, or
// return soon by their context; they retry until then.
func (c *Client) Close() error {
	c.limits.batcher.close()
	defer c.limits.batcher.calls.Wait() // their connections are closed by then
	if c.cluster != nil {
		c.cluster.close()
		defer c.cluster.wait()
	}
	if err := c.rdb.Close(); err != nil {
		return fmt.Errorf("redisstore: close: %w", err)
	}
	return nil
}

// Ping asks the server for an answer: one round trip.
func (c *Client) Ping(ctx context.Context) error {
	if err := c.rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redisstore: ping %v: %w", c.cfg.Addrs, err)
	}
	return nil
}

// Namespace is the tenant whose keys this client uses.
func (c *Client) Namespace() string { return c.cfg.Namespace }
