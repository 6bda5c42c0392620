package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// values are how many a key has; few are over their limit.
const (
	values = 10_000
	denied = 100
)

// connections are a few to one service, as Envoy has one for each of its threads.
type connections [4]*grpc.ClientConn

func connect(addr string) (*connections, error) {
	var c connections
	for i := range c {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		c[i] = conn
	}
	return &c, nil
}

func (c *connections) close() {
	for _, conn := range c {
		_ = conn.Close() // nothing is under way
	}
}

func (c *connections) ask(ctx context.Context, i int, key, value string) (ratelimitv3.RateLimitResponse_Code, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := ratelimitv3.NewRateLimitServiceClient(c[i%len(c)]).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
		Domain:      "bench",
		Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: value}}}},
	})
	if err != nil {
		return 0, err
	}
	return out.OverallCode, nil
}

// load asks with n callers for d, and gives how many calls there were and the 99th percentile of
// their times. Of the first calls for a value that is to be refused one a day is allowed.
func (c *connections) load(ctx context.Context, key string, n int, d time.Duration, want ratelimitv3.RateLimitResponse_Code) (int, time.Duration, error) {
	end := time.Now().Add(d)
	of := values
	if want == ratelimitv3.RateLimitResponse_OVER_LIMIT {
		of = denied
	}
	times, faults := make([][]time.Duration, n), make([]error, n)
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			others := 0
			for k := i * 101; ; k++ {
				began := time.Now()
				if began.After(end) {
					break
				}
				got, err := c.ask(ctx, i, key, strconv.Itoa(k%of))
				if err != nil {
					faults[i] = err
					return
				}
				if got != want {
					others++
				}
				times[i] = append(times[i], time.Since(began))
			}
			if others > of {
				faults[i] = fmt.Errorf("%s: %d of %d calls are not %v", key, others, len(times[i]), want)
			}
		})
	}
	callers.Wait()
	all := slices.Concat(times...)
	if err := errors.Join(faults...); err != nil || len(all) == 0 {
		return 0, 0, errors.Join(err, errors.New("no calls"))
	}
	slices.Sort(all)
	return len(all), all[len(all)*99/100], nil
}
