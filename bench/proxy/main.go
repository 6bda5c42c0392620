package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/hotparam/pipeline/bench/internal/httpload"
	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/bench/internal/redisserver"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds")
	length := flag.Duration("for", 2*time.Second, "how long one measurement takes")
	connections := flag.Int("connections", 32, "how many ask at the same time")
	ours := flag.String("ours", "../bin/limiter-sidecar", "the limiter sidecar")
	nginx := flag.String("nginx", "nginx", "nginx; left out if it is not there")
	role := flag.String("role", "", "what this process is for another one: upstream or bare")
	listen := flag.String("listen", "", "where, with -role")
	upstream := flag.String("upstream", "", "before which upstream, with -role bare")
	report := measure.NewReport("proxy", "nginx", "redis-server")
	flag.Parse()
	var err error
	switch *role {
	case "":
		err = run(report, *rounds, *length, *connections, *ours, *nginx)
	case "upstream":
		err = serveUpstream(*listen)
	case "bare":
		err = serveBare(*listen, *upstream)
	default:
		err = fmt.Errorf("-role %q is neither upstream nor bare", *role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// contender is a proxy that runs.
type contender struct {
	name, addr string
	*process.Process
}

func run(report *measure.Report, rounds int, d time.Duration, connections int, ours, nginx string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "hotparam-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	redis, err := redisserver.Start(ctx, "redis-server") // the sidecar reads the hot set there
	if err != nil {
		return err
	}
	defer redis.Stop()
	upstream, err := startUpstream(ctx)
	if err != nil {
		return err
	}
	defer upstream.Stop()
	all, err := startAll(ctx, dir, redis.Addr, upstream.addr, ours, nginx)
	defer func() {
		for _, c := range all {
			c.End()
		}
	}()
	if err != nil {
		return err
	}
	sheet := measure.NewSheet(measure.Higher, "k requests/s", "p50, ms", "p99, ms", "CPU of the proxy, us a request")
	var cases []func() error
	for _, what := range []string{cold, refusals} {
		for _, c := range all {
			if what == cold || c.name != bare {
				cases = append(cases, func() error { return c.measure(sheet, what, connections, d) })
			}
		}
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	return report.Write(sheet)
}

// The rows.
const (
	cold     = "cold keys"
	refusals = "refusals"
)

func (c *contender) measure(sheet *measure.Sheet, what string, connections int, d time.Duration) error {
	want, target := http.StatusOK, func(i, k int) string { return "/topic?id=" + strconv.Itoa((i*313+k)%10_000) }
	if what == refusals {
		want, target = http.StatusTooManyRequests, func(int, int) string { return "/topic?id=hot" }
	}
	before, err := c.CPU()
	if err != nil {
		return err
	}
	got, err := httpload.Run(c.addr, connections, d, target)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	after, err := c.CPU()
	if err != nil {
		return err
	}
	if others := got.Requests - got.Status[want]; others > got.Requests/100 {
		return fmt.Errorf("%s, %s: %v, want %d", c.name, what, got.Status, want)
	}
	sheet.Add(what, c.name, float64(got.Requests)/got.Took.Seconds()/1e3, got.P50.Seconds()*1e3, got.P99.Seconds()*1e3,
		float64(after-before)/float64(got.Requests)/1e3)
	return nil
}
