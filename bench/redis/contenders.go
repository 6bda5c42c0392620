package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/redisstore"
)

// ask makes one decision about a key (and, where three is set, about a client).
type ask func(ctx context.Context, key, client string) (admitted bool, err error)

// limiter is an open one.
type limiter struct {
	ask   ask
	close func()
}

// contender opens a limiter of perSecond with the same burst.
type contender struct {
	name string
	open func(addr string, perSecond int, three bool) (*limiter, error)
}

func contenders() []contender {
	return []contender{
		{measure.Ours, openOurs},
		{"redis_rate v10.0.1", openRedisRate},
		{"throttled v2.15.0", openThrottled},
		{"rueidislimiter v1.0.76", openRueidis},
	}
}

func openOurs(addr string, perSecond int, three bool) (*limiter, error) {
	c, err := redisstore.Open(redisstore.Config{Addrs: []string{addr}, Namespace: "bench"})
	if err != nil {
		return nil, err
	}
	store, n := c.Limiter(), int64(perSecond)
	bucket := limit.Spec{Algorithm: limit.TokenBucket, Limit: n, Window: time.Second, Burst: n}
	fixed := limit.Spec{Algorithm: limit.FixedWindow, Limit: n, Window: time.Second}
	sliding := limit.Spec{Algorithm: limit.SlidingWindow, Limit: n, Window: time.Minute}
	take := func(ctx context.Context, key, client string) (bool, error) {
		charges := [3]limit.Charge{{Subject: limit.Subject{Space: "hot", Name: key}, Spec: bucket, Cost: 1}}
		use := 1
		if three {
			who := hotparam.ClientFrom(netip.MustParseAddr(client))
			charges[1] = limit.Charge{Subject: limit.Subject{Space: "ip_fixed", Client: who}, Spec: fixed, Cost: 1}
			charges[2] = limit.Charge{Subject: limit.Subject{Space: "ip_sliding", Client: who}, Spec: sliding, Cost: 1}
			use = 3
		}
		var results [3]limit.Result
		return store.Take(ctx, time.Now(), charges[:use], results[:use])
	}
	return &limiter{take, func() { _ = c.Close() }}, nil
}

func openRedisRate(addr string, perSecond int, three bool) (*limiter, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	l, limit := redis_rate.NewLimiter(rdb), redis_rate.PerSecond(perSecond)
	one := func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key, limit)
		return err == nil && r.Allowed > 0, err
	}
	return &limiter{thrice(one, three), func() { _ = rdb.Close() }}, nil
}

func openThrottled(addr string, perSecond int, three bool) (*limiter, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	store, err := goredisstore.NewCtx(rdb, "throttled:")
	if err != nil {
		return nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: perSecond})
	if err != nil {
		return nil, err
	}
	one := func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited, err
	}
	return &limiter{thrice(one, three), func() { _ = rdb.Close() }}, nil
}

func openRueidis(addr string, perSecond int, three bool) (*limiter, error) {
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
	return &limiter{thrice(one, three), client.Close}, nil
}

// thrice asks for the key, and if three is set for two windows of the client as
// long as all admit: what a user of a limiter with one limit a call has to write.
func thrice(one func(ctx context.Context, key string) (bool, error), three bool) ask {
	return func(ctx context.Context, key, client string) (bool, error) {
		ok, err := one(ctx, key)
		if !three || !ok || err != nil {
			return ok, err
		}
		if ok, err = one(ctx, "fixed:"+client); !ok || err != nil {
			return ok, err
		}
		return one(ctx, "sliding:"+client)
	}
}
