package redisstore

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisstore/redistest"
)

// A store goes where the caller's client goes, by the caller's dialer, as on a client
// of Sentinel, and with connections of its own: the caller's client is not used.
func TestLikeTheCallersClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var dials atomic.Int64
	mine := redis.NewClient(&redis.Options{
		Addr: "nobody.invalid:1", DB: 3,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, server.Addr())
		},
	})
	t.Cleanup(func() { _ = mine.Close() })
	c, err := Open(Config{Like: mine, Namespace: "like"})
	if err != nil {
		t.Fatal(err)
	}
	takeOne(t, c)
	if dials.Load() == 0 || mine.PoolStats().TotalConns != 0 {
		t.Errorf("%d dials by the caller's dialer, %d connections of the caller's client", dials.Load(), mine.PoolStats().TotalConns)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n, err := mine.DBSize(t.Context()).Result(); n != 1 || err != nil {
		t.Errorf("the caller's database has %d keys, %v, after Close; want 1", n, err)
	}
}

func TestLikeTheCallersCluster(t *testing.T) {
	t.Parallel()
	mine := redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.StartCluster(t).Addrs()[:1], ReadOnly: true, RouteRandomly: true})
	t.Cleanup(func() { _ = mine.Close() })
	c, err := Open(Config{Like: mine, Namespace: "like"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Limiter().Shards() == 1 {
		t.Error("a cluster of one address is taken for one server")
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	takeOne(t, c)
}

func TestLikeTakesCredentials(t *testing.T) {
	t.Parallel()
	for _, mine := range []redis.UniversalClient{
		redis.NewClient(&redis.Options{Username: "anna", Password: "secret"}),
		redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, Username: "anna", Password: "secret"}),
	} {
		t.Cleanup(func() { _ = mine.Close() })
		_, o, err := Config{Like: mine}.resolve()
		if err != nil || o.Username != "anna" || o.Password != "secret" || o.MaxRetries != -1 || !o.ContextTimeoutEnabled {
			t.Errorf("%T: %+v, %v", mine, o, err)
		}
	}
}

// A script whose answer is lost is not sent again over the caller's connections
// either, although those have retries.
func TestScriptsAreSentOnceOverTheCallersConnections(t *testing.T) {
	t.Parallel()
	front := redistest.StartFront(t, redistest.Start(t).Addr())
	mine := redis.NewClient(&redis.Options{Addr: front.Addr(), MaxRetries: 3, Protocol: 2, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = mine.Close() })
	c, err := Over(mine, Config{Namespace: "over"})
	if err != nil {
		t.Fatal(err)
	}
	takeOne(t, c) // the script is known now
	front.Set(redistest.CutAfter(0))
	charges := []limit.Charge{{Subject: limit.Subject{Space: "x", Name: "y"}, Spec: limit.PerHour(10), Cost: 1}}
	if _, err := c.Limiter().Take(t.Context(), time.Time{}, charges, make([]limit.Result, 1)); err == nil {
		t.Error("no error though the answer was cut off")
	}
	front.Set(nil)
	charges[0].Cost = 0
	results := make([]limit.Result, 1)
	if _, err := c.Limiter().Take(t.Context(), time.Time{}, charges, results); err != nil || results[0].Remaining != 8 {
		t.Errorf("%+v, %v: want 8 left, one for each charge", results[0], err)
	}
}

// takeOne takes one of ten.
func takeOne(t *testing.T, c *Client) {
	t.Helper()
	charges := []limit.Charge{{Subject: limit.Subject{Space: "x", Name: "y"}, Spec: limit.PerHour(10), Cost: 1}}
	results := make([]limit.Result, 1)
	if ok, err := c.Limiter().Take(t.Context(), time.Time{}, charges, results); !ok || err != nil || results[0].Remaining != 9 {
		t.Errorf("%v, %v, %+v", ok, err, results[0])
	}
}
