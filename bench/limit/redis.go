package main

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
)

// libraries returns the contenders that a Go service calls. Each door has a client of its own with its default options,
// as two services would.
func libraries() []contender {
	return []contender{
		{name: "redis_rate", version: versionOf("github.com/go-redis/redis_rate/v10"), kind: "GCRA, burst 20",
			most: bucket(burst), open: twice(openRedisRate), redis: true, cluster: true},
		{name: "throttled", version: versionOf("github.com/throttled/throttled/v2"),
			kind: "GCRA, burst 20 behind the first", most: bucket(burst + 1), open: twice(openThrottled), redis: true,
			cluster: true},
		{name: "rueidislimiter", version: versionOf("github.com/redis/rueidis/rueidislimiter"),
			kind: "window from the first request", most: windows, open: twice(openRueidis), redis: true, cluster: true},
		{name: "INCREX, by a script", version: "of Redis 8.8 and Valkey 9.2", kind: "window from the first request",
			most: windows, open: twice(openIncrex), redis: true, cluster: true},
	}
}

// bucket returns the bound of a bucket of a size, which is full at first.
func bucket(size float64) func(time.Duration) float64 {
	return func(d time.Duration) float64 { return size + rate*d.Seconds() }
}

// windows returns the bound of all windows of a second that a stretch of d touches.
func windows(d time.Duration) float64 { return rate * float64((d+time.Second-1)/time.Second+1) }

// twice returns a function that opens two clients.
func twice(
	client func(addrs []string) (ask, func(), error),
) func(context.Context, string, []string) (*deployment, error) {
	return func(_ context.Context, _ string, addrs []string) (*deployment, error) {
		first, stopFirst, err := client(addrs)
		if err != nil {
			return nil, err
		}
		second, stopSecond, err := client(addrs)
		if err != nil {
			stopFirst()
			return nil, err
		}
		return &deployment{doors: [2]ask{first, second}, stop: func() { stopFirst(); stopSecond() }}, nil
	}
}

func openGoRedis(addrs []string) (rdb redis.UniversalClient, stop func()) {
	rdb = redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs})
	return rdb, func() { _ = rdb.Close() } // Redis may be gone
}

func openRedisRate(addrs []string) (ask, func(), error) {
	rdb, stop := openGoRedis(addrs)
	limiter, limit := redis_rate.NewLimiter(rdb), redis_rate.Limit{Rate: rate, Burst: burst, Period: time.Second}
	return func(ctx context.Context, key, _ string) (bool, error) {
		r, err := limiter.Allow(ctx, key, limit)
		return err == nil && r.Allowed > 0, err
	}, stop, nil
}

func openThrottled(addrs []string) (ask, func(), error) {
	rdb, stop := openGoRedis(addrs)
	store, err := goredisstore.NewCtx(rdb, "throttled:")
	if err != nil {
		stop()
		return nil, nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store,
		throttled.RateQuota{MaxRate: throttled.PerSec(rate), MaxBurst: burst})
	if err != nil {
		stop()
		return nil, nil, err
	}
	return func(ctx context.Context, key, _ string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited, err
	}, stop, nil
}

func openRueidis(addrs []string) (ask, func(), error) {
	var client rueidis.Client
	limiter, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientOption: rueidis.ClientOption{InitAddress: addrs},
		ClientBuilder: func(o rueidis.ClientOption) (c rueidis.Client, err error) {
			client, err = rueidis.NewClient(o)
			return client, err
		},
		Limit: rate, Window: time.Second,
	})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, key, _ string) (bool, error) {
		r, err := limiter.Allow(ctx, key)
		return err == nil && r.Allowed, err
	}, client.Close, nil
}

// increx is the command INCREX key UBOUND limit EX 1 ENX as a script. It adds one unless the sum would exceed the
// limit, and lets a key that has no end expire after a second. It returns the number that was added.
var increx = redis.NewScript(`
local sum = tonumber(redis.call('GET', KEYS[1]) or 0)
if sum + 1 > tonumber(ARGV[1]) then return 0 end
redis.call('INCR', KEYS[1])
if redis.call('TTL', KEYS[1]) < 0 then redis.call('EXPIRE', KEYS[1], 1) end
return 1`)

func openIncrex(addrs []string) (ask, func(), error) {
	rdb, stop := openGoRedis(addrs)
	return func(ctx context.Context, key, _ string) (bool, error) {
		added, err := increx.Run(ctx, rdb, []string{key}, rate).Int()
		return added == 1, err
	}, stop, nil
}
