package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// ratelimitFile limits each value of a key.
const ratelimitFile = `domain: bench
descriptors:
  - {key: key, rate_limit: {unit: second, requests_per_unit: %d}}
`

// openRatelimit starts two services on one Redis, each with its door, which are asked by the protocol of Envoy, but
// with the patience of the benchmark: Envoy itself waits 20 ms and then admits. Options that are not about addresses
// have their defaults, so that the services do not remember who is over its limit.
func openRatelimit(ctx context.Context, dir, path string, redis []string) (*deployment, error) {
	d := new(deployment)
	var stops []func()
	d.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	for i := range d.doors {
		door, stop, err := startRatelimit(ctx, dir, path, redis)
		if err != nil {
			d.stop()
			return nil, err
		}
		d.doors[i], stops = door, append(stops, stop)
	}
	return d, nil
}

func startRatelimit(ctx context.Context, dir, path string, redis []string) (ask, func(), error) {
	s, own, addrs, err := newServer(dir, path, 3)
	if err != nil {
		return nil, nil, err
	}
	s.addr = addrs[0]
	file := filepath.Join(own, "ratelimit", "config", "bench.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, ratelimitFile, rate), 0o600); err != nil {
		return nil, nil, err
	}
	s.env = []string{"USE_STATSD=false", "LOG_LEVEL=error", "RUNTIME_ROOT=" + own, "RUNTIME_SUBDIRECTORY=ratelimit",
		"RUNTIME_WATCH_ROOT=false", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + strings.Join(redis, ","),
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1"}
	for i, name := range []string{"GRPC_PORT", "PORT", "DEBUG_PORT"} {
		_, port, err := net.SplitHostPort(addrs[i])
		if err != nil {
			return nil, nil, err
		}
		s.env = append(s.env, name+"="+port)
	}
	if len(redis) > 1 {
		s.env = append(s.env, "REDIS_TYPE=CLUSTER", "REDIS_PIPELINE_WINDOW=150us") // its README requires a window
	}
	if err := s.start(ctx); err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.stop()
		return nil, nil, err
	}
	stop := func() {
		_ = conn.Close() // the service ends anyway
		s.stop()
	}
	door := askRatelimit(ratelimitv3.NewRateLimitServiceClient(conn))
	if err := s.await(func() error { _, err := door(ctx, "ready", ""); return err }); err != nil {
		stop()
		return nil, nil, err
	}
	return door, stop, nil
}

func askRatelimit(client ratelimitv3.RateLimitServiceClient) ask {
	return func(ctx context.Context, key, _ string) (bool, error) {
		answer, err := client.ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
			Domain: "bench",
			Descriptors: []*descriptors.RateLimitDescriptor{
				{Entries: []*descriptors.RateLimitDescriptor_Entry{{Key: "key", Value: key}}},
			},
		})
		if err == nil && answer.GetOverallCode() == ratelimitv3.RateLimitResponse_UNKNOWN {
			err = errors.New("envoyproxy/ratelimit: no verdict")
		}
		return answer.GetOverallCode() == ratelimitv3.RateLimitResponse_OK, err
	}
}
