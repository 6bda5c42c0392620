package etcdrules

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// Methods of etcd's API.
const (
	methodRange        = "/etcdserverpb.KV/Range"
	methodTxn          = "/etcdserverpb.KV/Txn"
	methodWatch        = "/etcdserverpb.Watch/Watch"
	methodAuthenticate = "/etcdserverpb.Auth/Authenticate"
)

// serviceConfig spreads calls over the reachable members, and lets a call wait for a member until its time ends. Reads
// change nothing, so they are repeated if a member is unreachable or has no leader.
const serviceConfig = `{
	"loadBalancingConfig": [{"round_robin": {}}],
	"methodConfig": [
		{"name": [{"service": "etcdserverpb.KV"}], "waitForReady": true},
		{"name": [{"service": "etcdserverpb.KV", "method": "Range"}, {"service": "etcdserverpb.Auth"}],
			"waitForReady": true,
			"retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
				"retryableStatusCodes": ["UNAVAILABLE"]}}
	]
}`

// client makes calls to the members of an etcd. Any number of goroutines may share it.
type client struct {
	conn           *grpc.ClientConn
	user, password string

	mu    sync.Mutex // guards token
	token *string    // of the user; nil if unknown, "" if etcd asks for no token
}

// dial returns a client. It does not need the server.
func dial(cfg *Config) (*client, error) {
	members, secure, err := parseMembers(cfg.Endpoints, cfg.TLS != nil)
	if err != nil {
		return nil, err
	}
	names := manual.NewBuilderWithScheme("etcd")
	names.InitialState(resolver.State{Endpoints: members})
	transport := insecure.NewCredentials()
	if secure {
		transport = credentials.NewTLS(cfg.TLS)
	}
	conn, err := grpc.NewClient("etcd:///"+members[0].Addresses[0].Addr,
		grpc.WithResolvers(names),
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: cfg.Timeout,
		}),
	)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, user: cfg.Username, password: cfg.Password}, nil
}

// parseMembers returns the addresses of endpoints, and reports whether they all speak TLS. It returns an error if only
// some do.
func parseMembers(endpoints []string, byDefault bool) (list []resolver.Endpoint, secure bool, err error) {
	for i, e := range endpoints {
		addr, tls := e, byDefault
		if rest, ok := strings.CutPrefix(e, "https://"); ok {
			addr, tls = rest, true
		} else if rest, ok := strings.CutPrefix(e, "http://"); ok {
			addr, tls = rest, false
		}
		if i > 0 && tls != secure {
			return nil, false, errors.New("some members of etcd speak TLS and others do not; write https:// before all")
		}
		secure = tls
		list = append(list, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr, ServerName: addr}}})
	}
	return list, secure, nil
}

// callAsUser makes one call, as the user if there is one. It replaces a token that etcd no longer accepts, once.
func (c *client) callAsUser(ctx context.Context, method string, in []byte) (out []byte, err error) {
	for range 2 {
		var as context.Context
		if as, err = c.withToken(ctx); err != nil {
			return nil, err
		}
		if err = c.conn.Invoke(as, method, in, &out); err == nil || !c.removeToken(err) {
			return out, err
		}
	}
	return nil, err
}

// withToken returns ctx with the token of the user.
func (c *client) withToken(ctx context.Context) (context.Context, error) {
	if c.user == "" {
		return ctx, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock() // also while the token is fetched, because others need the same
	if c.token == nil {
		token, err := c.fetchToken(ctx)
		if err != nil {
			return nil, err
		}
		c.token = &token
	}
	if *c.token == "" {
		return ctx, nil
	}
	return metadata.AppendToOutgoingContext(ctx, "token", *c.token), nil
}

func (c *client) fetchToken(ctx context.Context) (token string, err error) {
	var out []byte
	err = c.conn.Invoke(ctx, methodAuthenticate, authenticateRequest(c.user, c.password), &out)
	if status.Code(err) == codes.FailedPrecondition { // authentication is not enabled
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return decodeToken(out)
}

// removeToken forgets the token and returns true if an error may come from a token that is too old. etcd returns
// Unauthenticated for an invalid token, and InvalidArgument for a token of older users or an absent one.
func (c *client) removeToken(err error) bool {
	code := status.Code(err)
	if c.user == "" || code != codes.Unauthenticated && code != codes.InvalidArgument {
		return false
	}
	c.mu.Lock()
	c.token = nil
	c.mu.Unlock()
	return true
}

// watch calls changed when the watch of a key has begun and at each change, until the watch ends.
func (c *client) watch(ctx context.Context, key string, changed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()                                                                      // ends the stream
	ctx, err := c.withToken(metadata.AppendToOutgoingContext(ctx, "hasleader", "true")) // ends without a leader
	if err != nil {
		return err
	}
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, methodWatch)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(watchRequest(key)); err != nil {
		return err
	}
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		changed()
		if canceled, err := decodeWatch(message); err != nil || canceled {
			return err
		}
	}
}
