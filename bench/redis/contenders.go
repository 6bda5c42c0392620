package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
)

// ask makes one decision about a key and, if three is set, about one client, by its number.
type ask func(ctx context.Context, key string, client int) (admitted bool, err error)

// limiter is an open limiter.
type limiter struct {
	ask   ask
	close func()
	// windows is true if the limit of a key is a fixed window and not a bucket.
	windows bool
}

// contender opens a limiter of perSecond with the same burst.
type contender struct {
	name string
	open func(ctx context.Context, addr string, perSecond int, three bool) (*limiter, error)
}

func contenders() []contender { return append([]contender{{measure.Ours, openOurs}}, peers()...) }

func peers() []contender {
	return []contender{
		{"redis_rate v10.0.1", openRedisRate},
		{"throttled v2.15.0", openThrottled},
		{"rueidislimiter v1.0.76", openRueidis},
	}
}

// nClients is the number of clients.
const nClients = 1000

// address returns the address of a client.
func address(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, byte(n / 250), byte(n%250 + 1)})
}

func clients() []hottype.Client {
	all := make([]hottype.Client, nClients)
	for i := range all {
		all[i] = hottype.ClientFromAddr(address(i))
	}
	return all
}

func openOurs(_ context.Context, addr string, perSecond int, three bool) (*limiter, error) {
	c, err := redisclient.Open(redisclient.Config{Addrs: []string{addr}, Namespace: "bench"})
	if err != nil {
		return nil, err
	}
	return &limiter{ask: taking(redislimits.New(c), perSecond, three), close: func() { _ = c.Close() }}, nil
}

// taking returns a function that asks one of our stores.
func taking(store limit.Store, perSecond int, three bool) ask {
	n, who := int64(perSecond), clients()
	bucket := limit.Spec{Algorithm: limit.TokenBucket, Limit: n, Window: time.Second, Burst: n}
	fixed := limit.Spec{Algorithm: limit.FixedWindow, Limit: n, Window: time.Second}
	sliding := limit.Spec{Algorithm: limit.SlidingWindow, Limit: n, Window: time.Minute}
	use := 1
	if three {
		use = 3
	}
	type request struct {
		charges [3]limit.Charge
		results [3]limit.Result
	}
	requests := sync.Pool{New: func() any { // reused, as in a gate
		return &request{charges: [3]limit.Charge{
			{Subject: limit.Subject{Space: "hot"}, Spec: bucket, Cost: 1},
			{Subject: limit.Subject{Space: "ip_fixed"}, Spec: fixed, Cost: 1},
			{Subject: limit.Subject{Space: "ip_sliding"}, Spec: sliding, Cost: 1},
		}}
	}}
	return func(ctx context.Context, key string, client int) (bool, error) {
		r := requests.Get().(*request)
		defer requests.Put(r)
		r.charges[0].Subject.Name = key
		r.charges[1].Subject.Client, r.charges[2].Subject.Client = who[client], who[client]
		return store.Take(ctx, time.Time{}, r.charges[:use], r.results[:use]) // by the clock of Redis
	}
}

func openRedisRate(_ context.Context, addr string, perSecond int, three bool) (*limiter, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	l, limit := redis_rate.NewLimiter(rdb), redis_rate.PerSecond(perSecond)
	one := func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key, limit)
		return err == nil && r.Allowed > 0, err
	}
	return &limiter{ask: thrice(one, three), close: func() { _ = rdb.Close() }}, nil
}

func openThrottled(_ context.Context, addr string, perSecond int, three bool) (*limiter, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	store, err := goredisstore.NewCtx(rdb, "throttled:")
	if err != nil {
		return nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store,
		throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: perSecond})
	if err != nil {
		return nil, err
	}
	one := func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited, err
	}
	return &limiter{ask: thrice(one, three), close: func() { _ = rdb.Close() }}, nil
}

func openRueidis(_ context.Context, addr string, perSecond int, three bool) (*limiter, error) {
	var client rueidis.Client
	l, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		ClientBuilder: func(o rueidis.ClientOption) (c rueidis.Client, err error) {
			client, err = rueidis.NewClient(o)
			return client, err
		},
		Limit: perSecond, Window: time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("rueidislimiter: %w", err)
	}
	one := func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key)
		return err == nil && r.Allowed, err
	}
	return &limiter{ask: thrice(one, three), close: client.Close, windows: true}, nil
}

// thrice returns a function that asks for the key, and if three is set for two windows of the client as long as all
// admit. A user of a limiter with one limit per call has to write this.
func thrice(one func(ctx context.Context, key string) (bool, error), three bool) ask {
	names := make([][2]string, nClients)
	for i := range names {
		names[i] = [2]string{"fixed:" + address(i).String(), "sliding:" + address(i).String()}
	}
	return func(ctx context.Context, key string, client int) (bool, error) {
		ok, err := one(ctx, key)
		if !three || !ok || err != nil {
			return ok, err
		}
		if ok, err = one(ctx, names[client][0]); !ok || err != nil {
			return ok, err
		}
		return one(ctx, names[client][1])
	}
}
