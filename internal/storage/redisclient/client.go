// Package redisclient connects packages rediscontrol and redislimits to Redis. It holds the address and the timeout of
// calls, decides which calls are sent again and which never are, and builds the names of the keys.
//
// A [Client] is opened once and shared. Nothing here needs the server to be up: calls fail within their timeout. It
// works on one server, behind TLS, on a unix socket and on a cluster: all keys of a namespace have one hash tag.
package redisclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is a connection to Redis that packages rediscontrol and redislimits share. Any number of goroutines may share
// it. Close it after its last use; calls that still run then fail with an error.
type Client struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // nil for one server
	cfg     Config
	keys    Keys
	closers []closer
	// sentinels is nil if Redis is at a fixed address.
	sentinels *sentinels
	// readOnly and sentinelsTooFew are the last findings of Watch.
	readOnly, sentinelsTooFew atomic.Bool
}

// closer belongs to a caller that makes calls in goroutines of its own.
type closer struct{ stop, wait func() }

// Open returns a client. It does not need the server: only a bad Config is an error, and connections are made when they
// are first needed.
func Open(cfg Config) (*Client, error) {
	cfg, options, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	var s *sentinels
	if cfg.SentinelMaster != "" {
		s = newSentinels(cfg, newWatchdog())
		options.Addrs, options.Dialer = []string{cfg.SentinelMaster}, s.masterDialer(cfg.newDialer())
	}
	c := newClient(redis.NewUniversalClient(options), cfg)
	c.sentinels = s
	c.rdb.AddHook(sendOnceHook{cfg.Timeout})
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		cluster.AddHook(&reloader{cluster: cluster})
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(endpointHook{}) })
		c.cluster = cluster
	}
	return c, nil
}

// Wrap returns a client that uses the caller's connections, for limits. The caller's options hold: a context ends a
// call only if the options have ContextTimeoutEnabled. Close leaves the connections open. Of cfg only Namespace,
// Timeout, Budget and Log count.
func Wrap(rdb redis.UniversalClient, cfg Config) (*Client, error) {
	if isNil(rdb) {
		return nil, errNilClient
	}
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

// OnClose registers stop to be called before the connections are closed, and wait to be called after that. It must not
// be called once the client is shared.
func (c *Client) OnClose(stop, wait func()) { c.closers = append(c.closers, closer{stop, wait}) }

// Close ends all connections. Followers and reporters must have returned, or return soon by their context; they retry
// until then.
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

// Ping asks the server for a reply. It takes one round trip.
func (c *Client) Ping(ctx context.Context) error {
	if err := c.rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redisclient: ping %v: %w", c.cfg.Addrs, err)
	}
	return nil
}

// Redis returns the client that makes calls. Each call takes at most the Timeout, and scripts are sent once.
func (c *Client) Redis() redis.UniversalClient { return c.rdb }

// Cluster returns the client that knows which node has a key, or nil if there is one server.
func (c *Client) Cluster() *redis.ClusterClient { return c.cluster }

// Config returns the configuration of the client, with its defaults.
func (c *Client) Config() Config { return c.cfg }

// sendOnceHook is a hook of every client. It bounds each call by the client's Timeout, including the dial and all
// redirects, and sends scripts once, because most of them charge or refund, and a script whose reply was lost may have
// run. Without it the cluster client of go-redis would send a script again after a lost reply, up to three times,
// independent of MaxRetries.
//
// Redirects (MOVED, ASK) and NOSCRIPT are still followed, because a server that answers so has run nothing.
type sendOnceHook struct{ timeout time.Duration }

// DialHook changes nothing.
func (h sendOnceHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook bounds one command.
func (h sendOnceHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, cancel := h.withTimeout(ctx)
		defer cancel()
		return next(ctx, wrapScript(cmd))
	}
}

// ProcessPipelineHook bounds a pipeline. One script in it is enough to keep go-redis from sending any of its commands
// again.
func (h sendOnceHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, cancel := h.withTimeout(ctx)
		defer cancel()
		wrapped := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			wrapped[i] = wrapScript(cmd)
		}
		return spreadError(cmds, next(ctx, wrapped))
	}
}

// spreadError sets the pipeline's error on every command if none of them has an error, because nothing was sent then,
// for example because the server refused the login. go-redis leaves such commands without an error, so that each reads
// as an empty reply: a version "", a hash without entries, a refund that was made.
func spreadError(cmds []redis.Cmder, err error) error {
	if err == nil || slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Err() != nil }) {
		return err
	}
	for _, c := range cmds {
		c.SetErr(err)
	}
	return err
}

func (h sendOnceHook) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= h.timeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, h.timeout)
}

// wrapScript wraps a script. It returns other commands unchanged, because go-redis reads the types of the commands that
// it sends to several nodes.
func wrapScript(cmd redis.Cmder) redis.Cmder {
	if strings.HasPrefix(cmd.Name(), "eval") {
		return noRetry{cmd}
	}
	return cmd
}

// noRetry is a command that go-redis must not send again after a lost reply.
type noRetry struct{ redis.Cmder }

func (noRetry) NoRetry() bool { return true }

// copyFromClient copies the address and the credentials of the caller's client to o.
//
// The store does not use that client itself. A decision has to come within its budget even if Redis hangs. So
// connections must honor contexts, be dialed once, be watched, and send scripts once (see clientOptions, watchedDialer,
// sendOnceHook). As options or hooks of the caller's client these would change the caller's own calls, and without them
// a Redis that hangs would hold decisions for seconds. So the store has connections of its own, and closes only those.
func copyFromClient(o *redis.UniversalOptions, client redis.UniversalClient) error {
	if isNil(client) {
		return errNilClient
	}
	switch c := client.(type) {
	case *redis.Client:
		from := c.Options()
		o.Addrs, o.DB, o.IsClusterMode = []string{from.Addr}, from.DB, false
		o.Username, o.Password, o.TLSConfig, o.OnConnect = from.Username, from.Password, from.TLSConfig, from.OnConnect
		o.CredentialsProvider, o.CredentialsProviderContext = from.CredentialsProvider, from.CredentialsProviderContext
		o.StreamingCredentialsProvider = from.StreamingCredentialsProvider
		o.Dialer = from.Dialer // of a Sentinel client, it finds the master
	case *redis.ClusterClient:
		from := c.Options()
		if from.ClusterSlots != nil {
			return fmt.Errorf("redisclient: a ClusterClient with ClusterSlots of its own is not supported")
		}
		o.Addrs, o.DB, o.IsClusterMode = from.Addrs, 0, true
		o.Username, o.Password, o.TLSConfig, o.OnConnect = from.Username, from.Password, from.TLSConfig, from.OnConnect
		o.CredentialsProvider, o.CredentialsProviderContext = from.CredentialsProvider, from.CredentialsProviderContext
		o.StreamingCredentialsProvider = from.StreamingCredentialsProvider
		o.Dialer = from.Dialer
	default:
		return fmt.Errorf(
			"redisclient: client %T must be *redis.Client or *redis.ClusterClient; a Ring is not supported, because its servers do not share scripts' keys", client)
	}
	if o.Dialer == nil {
		o.Dialer = redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	}
	o.Dialer = newWatchdog().watchedDialer(o.Dialer)
	return nil
}

var errNilClient = errors.New("redisclient: the client is nil; make one with redis.NewClient or redis.NewClusterClient")

// isNil reports whether client is nil, also behind a type.
func isNil(client redis.UniversalClient) bool {
	switch c := client.(type) {
	case nil:
		return true
	case *redis.Client:
		return c == nil
	case *redis.ClusterClient:
		return c == nil
	}
	return false
}

// callerClient is a client of the caller's. It sends its scripts once, as sendOnceHook does, but without a hook, which
// would do so to the caller's own scripts.
type callerClient struct {
	redis.UniversalClient
	once sendOnceHook
}

// Process bounds one command.
func (c callerClient) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.once.ProcessHook(c.UniversalClient.Process)(ctx, cmd)
}

// Pipelined makes many commands in one round trip. Each of them has an error if nothing was sent.
func (c callerClient) Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	cmds, err := c.UniversalClient.Pipelined(ctx, fn)
	return cmds, spreadError(cmds, err)
}

func (c callerClient) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return c.runScript(ctx, "evalsha", sha1, keys, args)
}

func (c callerClient) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return c.runScript(ctx, "eval", script, keys, args)
}

func (c callerClient) runScript(ctx context.Context, name, script string, keys []string, args []any) *redis.Cmd {
	all := append(make([]any, 0, 3+len(keys)+len(args)), name, script, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	if len(keys) > 0 {
		cmd.SetFirstKeyPos(3)
	}
	_ = c.Process(ctx, cmd) // cmd holds its error
	return cmd
}

// Close leaves the caller's connections open.
func (c callerClient) Close() error { return nil }
