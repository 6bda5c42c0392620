// Package redisclient is the connection to Redis that packages rediscontrol and
// redislimits share: its address, the timeout of calls, what is sent again and what
// never is, and the names of the keys.
//
// A [Client] is opened once and shared. Nothing here needs the server to be up: calls
// fail within their timeout. It works on one server, behind TLS, on a unix socket and
// on a cluster: all keys of a namespace have one hash tag.
package redisclient

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Client is a connection to Redis that packages rediscontrol and redislimits share. Any
// number of goroutines may share it. Close it when nothing uses it any more; what still
// runs on it then fails with an error.
type Client struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // nil: one server
	cfg     Config
	keys    Keys
	closers []closer
	// sentinels is nil where Redis is at a fixed address.
	sentinels *sentinels
	readOnly  atomic.Bool // as Watch last found it
}

// closer belongs to who makes calls in goroutines of its own.
type closer struct{ stop, wait func() }

// Open makes a client. It does not need the server: only a bad Config is an
// error, and connections are made when they are first needed.
func Open(cfg Config) (*Client, error) {
	cfg, options, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	var s *sentinels
	if cfg.SentinelMaster != "" {
		s = newSentinels(cfg, newWatchdog())
		options.Addrs, options.Dialer = []string{cfg.SentinelMaster}, s.dialer(cfg.dial())
	}
	c := newClient(redis.NewUniversalClient(options), cfg)
	c.sentinels = s
	c.rdb.AddHook(sendOnceHook{cfg.Timeout})
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		cluster.AddHook(&reloader{cluster: cluster})
		c.cluster = cluster
	}
	return c, nil
}

// Wrap makes a client of the caller's connections, for limits. The caller's options hold: a context ends a call only if
// the options have ContextTimeoutEnabled. Close leaves the connections open. Of cfg only Namespace,
// Timeout, Budget and Log count.
func Wrap(rdb redis.UniversalClient, cfg Config) (*Client, error) {
	cfg.OptionsFrom = rdb
	cfg, _, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	c := newClient(callerClient{rdb, sendOnceHook{cfg.Timeout}}, cfg)
	c.cluster, _ = rdb.(*redis.ClusterClient)
	return c, nil
}

func newClient(rdb redis.UniversalClient, cfg Config) *Client {
	return &Client{rdb: rdb, cfg: cfg, keys: NewKeys(cfg.Namespace)}
}

// OnClose has stop called before the connections are closed, and wait after that. It
// must not be called once the client is shared.
func (c *Client) OnClose(stop, wait func()) { c.closers = append(c.closers, closer{stop, wait}) }

// Close ends all connections. Followers and reporters must have returned, or
// return soon by their context; they retry until then.
func (c *Client) Close() error {
	for _, s := range c.closers {
		s.stop()
		defer s.wait() // its connections are closed by then
	}
	if c.sentinels != nil {
		defer c.sentinels.close()
	}
	if err := c.rdb.Close(); err != nil {
		return fmt.Errorf("redisclient: close: %w", err)
	}
	return nil
}

// Ping asks the server for an answer: one round trip.
func (c *Client) Ping(ctx context.Context) error {
	if err := c.rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redisclient: ping %v: %w", c.cfg.Addrs, err)
	}
	return nil
}

// Redis makes calls: each takes at most the Timeout, and scripts are sent once.
func (c *Client) Redis() redis.UniversalClient { return c.rdb }

// Cluster knows which node has a key; nil on one server.
func (c *Client) Cluster() *redis.ClusterClient { return c.cluster }

// Config is what the client was made with, defaults filled in.
func (c *Client) Config() Config { return c.cfg }
