package redisclient

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// takeFrom sets in o where Redis is and who we are from the caller's client.
//
// The store does not use that client itself. A decision has to come within its
// budget whatever Redis does, for which connections must honour contexts, be made
// once, be watched, and send scripts once (see options, dialer, once): as options or
// hooks of the caller's client these would change the caller's own calls, and
// without them a Redis that hangs would hold decisions for seconds. So the store
// has connections of its own, and closes only those.
func takeFrom(o *redis.UniversalOptions, client redis.UniversalClient) error {
	switch c := client.(type) {
	case *redis.Client:
		from := c.Options()
		o.Addrs, o.DB, o.IsClusterMode = []string{from.Addr}, from.DB, false
		o.Username, o.Password, o.TLSConfig, o.OnConnect = from.Username, from.Password, from.TLSConfig, from.OnConnect
		o.CredentialsProvider, o.CredentialsProviderContext = from.CredentialsProvider, from.CredentialsProviderContext
		o.StreamingCredentialsProvider = from.StreamingCredentialsProvider
		o.Dialer = from.Dialer // that of a Sentinel client finds the master
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
			"redisclient: client %T: want *redis.Client or *redis.ClusterClient; a Ring is not supported, because its servers do not share scripts' keys", client)
	}
	if o.Dialer == nil {
		o.Dialer = redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	}
	o.Dialer = newWatchdog().dialer(o.Dialer)
	return nil
}

// callerClient is a client of the caller's. Its scripts are sent once, as the hook once
// has it, without a hook that would do so to the caller's own scripts.
type callerClient struct {
	redis.UniversalClient
	once sendOnceHook
}

// Process bounds one command.
func (c callerClient) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.once.ProcessHook(c.UniversalClient.Process)(ctx, cmd)
}

// EvalSha implements redis.Scripter.
func (c callerClient) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return c.eval(ctx, "evalsha", sha1, keys, args)
}

// Eval implements redis.Scripter.
func (c callerClient) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return c.eval(ctx, "eval", script, keys, args)
}

func (c callerClient) eval(ctx context.Context, name, script string, keys []string, args []any) *redis.Cmd {
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
