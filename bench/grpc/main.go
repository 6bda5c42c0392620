package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/bench/internal/redisserver"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// limits is the file that both services read.
const limits = `domain: bench
descriptors:
  - {key: allow, rate_limit: {unit: day, requests_per_unit: 1000000000}}
  - {key: deny, rate_limit: {unit: day, requests_per_unit: 1}}
`

// ownRules are the rules of hotparam alone: for requests over HTTP, and for descriptors that no file limits.
const ownRules = `rules:
  - {name: bench, match: {path: /bench}, params: [id], hot: {rate: 100000000}, limit: {rate: 100}}
  - {name: allow, match: {path: /allow}, params: [id], hot: {rate: 100000000}, limit: {rate: 100}}
  - {name: deny, match: {path: /deny}, params: [id], hot: {rate: 100000000}, limit: {rate: 100}}
overrides:
  - {key: "allow?id=*", rate: 10000000}
`

// rules returns rules with an override for each value that is to be refused, as a hot key has a limit of its own.
func rules() string {
	b := new(strings.Builder)
	b.WriteString(ownRules)
	for i := range denied {
		fmt.Fprintf(b, "  - {key: \"deny?id=%d\", rate: 0.00001, burst: 1}\n", i)
	}
	return b.String()
}

func main() {
	rounds := flag.Int("rounds", 5, "rounds")
	length := flag.Duration("for", 2*time.Second, "how long one measurement takes")
	callers := flag.String("callers", "1,16,64", "how many calls are under way at a time")
	ours := flag.String("ours", "../bin/limiter-sidecar", "the limiter sidecar")
	peer := flag.String("peer", "../bin/service_cmd", "envoyproxy/ratelimit; left out if it is not there")
	report := measure.NewReport("grpc", "redis-server")
	flag.Parse()
	report.Versions[*peer] = ""
	if err := run(report, *rounds, *length, *callers, *ours, *peer); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

// contender is a running service.
type contender struct {
	name string
	*process.Process
	redis *redisserver.Server
	conns *connections
	web   *web
}

func run(report *measure.Report, rounds int, d time.Duration, list, ours, peer string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "hotparam-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	contenders := []func(context.Context, string, string) (*contender, error){startOurs}
	paths := []string{ours}
	if _, err := os.Stat(peer); err == nil {
		contenders, paths = append(contenders, startPeer), append(paths, peer)
	} else {
		fmt.Fprintln(os.Stderr, "grpc: without envoyproxy/ratelimit:", err)
	}
	var running []*contender
	for i, start := range contenders {
		c, err := start(ctx, dir, paths[i])
		if c != nil {
			defer c.stop()
		}
		if err != nil {
			return err
		}
		running = append(running, c)
	}
	sheet := measure.NewSheet(measure.Higher, "k calls/s", "p99, ms", "CPU of the service, us a call")
	var cases []func() error
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-callers: %q is no number of callers", text)
		}
		for _, key := range []string{"allow", "deny", "id"} {
			for _, c := range running {
				if key == "id" && c.name != measure.Ours {
					continue // the peer has no rules
				}
				cases = append(cases, func() error { return c.measure(ctx, sheet, "gRPC", c.conns, key, n, d) })
				if key != "id" {
					cases = append(cases, func() error { return c.measure(ctx, sheet, "HTTP", c.web, key, n, d) })
				}
			}
		}
	}
	if err := measure.Rounds(rounds, cases...); err != nil {
		return err
	}
	return report.Write(sheet)
}

// loader makes calls with n callers for d about values of a key that are all allowed or all refused.
type loader interface {
	load(ctx context.Context, key string, n int, d time.Duration, refused bool) (calls int, p99 time.Duration,
		err error)
}

func (c *contender) measure(
	ctx context.Context, sheet *measure.Sheet, by string, l loader, key string, n int, d time.Duration,
) error {
	before, err := c.CPU()
	if err != nil {
		return err
	}
	began := time.Now()
	calls, p99, err := l.load(ctx, key, n, d, key == "deny")
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	took := time.Since(began)
	after, err := c.CPU()
	if err != nil {
		return err
	}
	what := map[string]string{"allow": "allow", "deny": "deny", "id": "rules, nothing hot"}[key]
	sheet.Add(fmt.Sprintf("%s: %s, %d callers", by, what, n), c.name,
		float64(calls)/took.Seconds()/1e3, p99.Seconds()*1e3, float64(after-before)/float64(calls)/1e3)
	return nil
}

func (c *contender) stop() {
	if c.conns != nil {
		c.conns.close()
	}
	c.Stop()
	c.redis.Stop()
}

// startOurs starts the sidecar. Its budget for Redis is not exceeded on a busy machine, so that every verdict is the
// shared verdict, as with the peer.
func startOurs(ctx context.Context, dir, path string) (*contender, error) {
	redis, err := redisserver.Start(ctx, "redis-server")
	if err != nil {
		return nil, err
	}
	ports, err := addresses(2)
	if err != nil {
		return nil, err
	}
	if err := write(dir, "limits.yaml", limits); err != nil {
		return nil, err
	}
	if err := write(dir, "hotparam.yaml", rules()); err != nil {
		return nil, err
	}
	addr, web := ports[0], ports[1]
	p, err := process.Start(ctx, nil, path, "--config", filepath.Join(dir, "hotparam.yaml"), "--redis.addr", redis.Addr,
		"--decide.listen", "", "--admin.listen", "", "--check.listen", web, "--check.dialect", "path",
		"--sidecar.count", "none", "--gate.budget", "1s",
		"--envoy.listen", addr, "--envoy.limits", filepath.Join(dir, "limits.yaml"))
	if err != nil {
		return nil, err
	}
	return ready(ctx, &contender{name: measure.Ours, Process: p, redis: redis, web: checks(web)}, addr)
}

// startPeer starts envoyproxy/ratelimit.
func startPeer(ctx context.Context, dir, path string) (*contender, error) {
	redis, err := redisserver.Start(ctx, "redis-server")
	if err != nil {
		return nil, err
	}
	ports, err := addresses(3)
	if err != nil {
		return nil, err
	}
	if err := write(dir, filepath.Join("ratelimit", "config", "limits.yaml"), limits); err != nil {
		return nil, err
	}
	p, err := process.Start(ctx, func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), "USE_STATSD=false", "LOG_LEVEL=error", "REDIS_SOCKET_TYPE=tcp",
			"REDIS_URL="+redis.Addr,
			"RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
			"LOCAL_CACHE_SIZE_IN_BYTES=10000000",
			"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
			"GRPC_PORT="+portOf(ports[0]), "PORT="+portOf(ports[1]), "DEBUG_PORT="+portOf(ports[2]))
	}, path)
	if err != nil {
		return nil, err
	}
	return ready(ctx, &contender{name: "envoyproxy/ratelimit", Process: p, redis: redis, web: documents(ports[1])},
		ports[0])
}

// ready connects to a service and waits until it refuses the values that it should.
func ready(ctx context.Context, c *contender, addr string) (*contender, error) {
	return c, c.Await(func() (err error) {
		if c.conns == nil {
			if c.conns, err = connect(ctx, addr); err != nil {
				return err
			}
		}
		got, err := c.conns.ask("deny", "warm") // the first call of a day is allowed
		if err == nil && got != ratelimitv3.RateLimitResponse_OVER_LIMIT {
			return fmt.Errorf("%s does not refuse: %v", c.name, got)
		}
		return err
	})
}

// addresses returns free addresses on loopback.
func addresses(n int) (all []string, err error) {
	for range n {
		addr, err := freeport.FindAddr()
		if err != nil {
			return nil, err
		}
		all = append(all, addr)
	}
	return all, nil
}

func portOf(addr string) string { return strings.TrimPrefix(addr, "127.0.0.1:") }

func write(dir, name, text string) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
