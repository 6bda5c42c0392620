package redislimits

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A store goes where the caller's client goes, by the caller's dialer, as on a client
// of Sentinel, and with connections of its own: the caller's client is not used.
func TestLimiter_ConnectsLikeCallersClient(t *testing.T) {
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
	c, err := redisclient.Open(redisclient.Config{OptionsFrom: mine, Namespace: "like"})
	if err != nil {
		t.Fatal(err)
	}
	takeOne(t, New(c))
	if dials.Load() == 0 || mine.PoolStats().TotalConns != 0 {
		t.Errorf("%d dials by the caller's dialer, %d connections of the caller's client", dials.Load(),
			mine.PoolStats().TotalConns)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n, err := mine.DBSize(t.Context()).Result(); n != 1 || err != nil {
		t.Errorf("the caller's database has %d keys, %v, after Close; want 1", n, err)
	}
}

func TestLimiter_ConnectsLikeCallersCluster(t *testing.T) {
	t.Parallel()
	mine := redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.StartCluster(t).Addrs()[:1], ReadOnly: true,
		RouteRandomly: true})
	t.Cleanup(func() { _ = mine.Close() })
	c, err := redisclient.Open(redisclient.Config{OptionsFrom: mine, Namespace: "like"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if New(c).Shards() == 1 {
		t.Error("a cluster of one address is taken for one server")
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	takeOne(t, New(c))
}

// A script whose answer is lost is not sent again over the caller's connections
// either, although those have retries.
func TestLimiter_SendsScriptsOnceOverCallersConnections(t *testing.T) {
	t.Parallel()
	front := redistest.StartFaultProxy(t, redistest.Start(t).Addr())
	mine := redis.NewClient(&redis.Options{Addr: front.Addr(), MaxRetries: 3, Protocol: 2, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = mine.Close() })
	c, err := redisclient.Wrap(mine, redisclient.Config{Namespace: "over"})
	if err != nil {
		t.Fatal(err)
	}
	l := New(c)
	takeOne(t, l)                                     // the script is known now
	front.Set(redistest.At(1, redistest.CutAfter(0))) // a second try would be answered
	charges := []limit.Charge{{Subject: limit.Subject{Space: "x", Name: "y"}, Spec: limit.PerHour(10), Cost: 1}}
	if _, err := l.Take(t.Context(), time.Time{}, charges, make([]limit.Result, 1)); err == nil {
		t.Error("no error though the answer was cut off")
	}
	front.Set(nil)
	charges[0].Cost = 0
	results := make([]limit.Result, 1)
	if _, err := l.Take(t.Context(), time.Time{}, charges, results); err != nil || results[0].Remaining != 8 {
		t.Errorf("%+v, %v: want 8 left, one for each charge", results[0], err)
	}
}

// takeOne takes one of ten.
func takeOne(t *testing.T, l *Limiter) {
	t.Helper()
	charges := []limit.Charge{{Subject: limit.Subject{Space: "x", Name: "y"}, Spec: limit.PerHour(10), Cost: 1}}
	results := make([]limit.Result, 1)
	if ok, err := l.Take(t.Context(), time.Time{}, charges, results); !ok || err != nil || results[0].Remaining != 9 {
		t.Errorf("%v, %v, %+v", ok, err, results[0])
	}
}
