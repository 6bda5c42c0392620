package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
)

// threeLimits are the rules of a gate; the windows of a client are never full.
const threeLimits = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 100}, limit: {rate: %d, burst: %d}}
ip:
  fixed: {limit: 50000000, window: 1s, consistency: %s}
  sliding: {limit: 50000000, window: 60s, consistency: %s}
`

// errStore reports that the verdict came by a failure policy and not by the limits.
var errStore = errors.New("the shared store did not decide")

// openGate returns a function that opens a gate wired as in a sidecar: the whole way from a request to its verdict,
// including matching.
func openGate(consistency string) func(context.Context, string, int, bool) (*limiter, error) {
	return func(ctx context.Context, addr string, perSecond int, _ bool) (*limiter, error) {
		set, err := rules.Parse("bench.yaml", fmt.Appendf(nil, threeLimits, perSecond, perSecond, consistency,
			consistency))
		if err != nil {
			return nil, err
		}
		c, err := redisclient.Open(redisclient.Config{Addrs: []string{addr}, Namespace: "bench"})
		if err != nil {
			return nil, err
		}
		limits := redislimits.New(c)
		windows, mirror := limits.Windows(), new(hotset.Replica)
		ctx, cancel := context.WithCancel(ctx)
		var running errgroup.Group
		running.Go(func() error { return windows.Run(ctx) })
		stop := func() {
			cancel()
			_ = running.Wait()
			_ = c.Close()
		}
		for !windows.Fresh(time.Now(), new(limit.Subject)) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				stop()
				return nil, ctx.Err()
			}
		}
		g := gate.New(gate.Config{Rules: set, Hot: mirror, Shared: limits, Async: windows,
			Local: limit.NewMemory(limit.MemoryConfig{})})
		return &limiter{ask: through(g, mirror), close: stop}, nil
	}
}

// through returns a function that asks a gate for requests of topics, which are hot from the first request on.
func through(g *gate.Gate, mirror *hotset.Replica) ask {
	who := clients()
	now := time.Now()
	hot := report.HotSet{Version: 1, At: now}
	for _, key := range []string{hotTopic, hotTopic + warm} {
		hot.Keys = append(hot.Keys, hottype.HotKey{Key: hottype.Key(key), Rule: "topic", Rate: 1e6, Since: now,
			Until: now.Add(time.Hour)})
	}
	mirror.Replace("bench", hot)
	header := http.Header{}
	return func(ctx context.Context, key string, client int) (bool, error) {
		v := g.Decide(ctx, time.Now(), &hottype.Request{Method: "GET", Host: "news.example", Target: "/" + key,
			Client: who[client], Header: header})
		if v.Reason == hottype.ReasonStore {
			return false, errStore
		}
		return v.Allowed, nil
	}
}
