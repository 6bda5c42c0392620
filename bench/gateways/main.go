package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/bench/internal/redisserver"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

const ruleText = `rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 100000000}, limit: {rate: 100}}
  - {name: page, match: {path: /page}, params: [id], hot: {rate: 1}, limit: {rate: 100}, cache: {}}
overrides:
  - {key: "topic?id=viral", action: limit, rate: 1, burst: 1}
`

// peerLimits are the rules for envoyproxy/ratelimit: a limit for each value that is never reached.
const peerLimits = `domain: hotparam
descriptors:
  - key: generic_key
    value: /topic
    descriptors:
      - {key: id, rate_limit: {unit: second, requests_per_unit: 1000000}}
`

const alone = "without asking"

var dialer = net.Dialer{Timeout: time.Second}

func main() {
	b := bench{}
	flag.IntVar(&b.rounds, "rounds", 5, "rounds")
	flag.DurationVar(&b.length, "for", 4*time.Second, "how long one measurement takes")
	flag.IntVar(&b.rate, "rate", 500, "requests a second")
	flag.IntVar(&b.connections, "connections", 16, "connections to the gateway")
	flag.StringVar(&b.ours, "ours", "../bin/limiter-sidecar", "the limiter sidecar")
	flag.StringVar(&b.peer, "peer", "../bin/service_cmd", "envoyproxy/ratelimit; left out if it is not there")
	flag.StringVar(&b.deploy, "deploy", "../deploy", "the files of the gateways")
	flag.StringVar(&b.serve, "serve", "../bin/hotparam", "hotparam, for -fast")
	envoy := flag.String("envoy", "envoy", "Envoy; left out if it is not there")
	flag.BoolVar(&b.fast, "fast", false, "nginx at full speed")
	report := measure.NewReport("gateways", "nginx", "haproxy", "redis-server")
	flag.Parse()
	if b.fast {
		report.Name = "gateways-fast"
	} else {
		report.Versions["caddy"], report.Versions[*envoy], report.Versions[b.peer] = "", "", ""
	}
	if err := b.run(report, questions(*envoy)); err != nil {
		fmt.Fprintln(os.Stderr, "gateways:", err)
		os.Exit(1)
	}
}

type bench struct {
	rounds, rate, connections int
	length                    time.Duration
	ours, peer, deploy, serve string
	fast                      bool

	ctx     context.Context
	dir     string
	redis   string
	app     string // port of the application
	edge    string // port of the feed of the limiter that started last
	running []*process.Process
	sheet   *measure.Sheet
	cases   []func() error
}

func (b *bench) run(report *measure.Report, all []question) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ctx = ctx
	var err error
	if b.dir, err = os.MkdirTemp("", "hotparam-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := os.WriteFile(filepath.Join(b.dir, "rules.yaml"), []byte(ruleText), 0o600); err != nil {
		return err
	}
	defer func() {
		for _, p := range b.running {
			p.End()
		}
	}()
	if b.fast {
		err = b.fullSpeed()
	} else {
		var stop func()
		stop, err = b.atRate(all)
		defer stop()
	}
	if err != nil {
		return err
	}
	if err := measure.Rounds(b.rounds, b.cases...); err != nil {
		return err
	}
	return report.Write(b.sheet)
}

// atRate adds the measurements of all gateways at a fixed rate. Stop Redis and the application after them.
func (b *bench) atRate(all []question) (stop func(), err error) {
	redis, err := redisserver.Start(b.ctx, "redis-server")
	if err != nil {
		return func() {}, err
	}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "page")
	}))
	stop = func() { app.Close(); redis.Stop() }
	b.redis, b.app = redis.Addr, app.URL[strings.LastIndexByte(app.URL, ':')+1:]
	b.sheet = measure.NewSheet(measure.Lower, "p50, ms", "p99, ms")
	for _, q := range all {
		if _, err := exec.LookPath(q.program); err != nil {
			fmt.Fprintf(os.Stderr, "gateways: without %s: %v\n", q.name, err)
			continue
		}
		if err := b.add(q); err != nil {
			return stop, fmt.Errorf("%s: %w", q.name, err)
		}
	}
	return stop, nil
}

// add starts a gateway that calls the limiter, the same gateway without a limiter, and for the rate limit service a
// third that calls the peer.
func (b *bench) add(q question) error {
	limiter, err := b.startLimiter(q.limiter)
	if err == nil {
		err = b.startGateway(q, measure.Ours, limiter, nil)
	}
	if err == nil {
		err = b.startGateway(q, alone, limiter, q.silence)
	}
	if err != nil || !strings.Contains(q.name, "rate limit service") {
		return err
	}
	peer, err := b.startPeer()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateways: without envoyproxy/ratelimit:", err)
		return nil
	}
	return b.startGateway(q, "envoyproxy/ratelimit", peer, nil)
}

// start starts a program and waits until its port takes connections.
func (b *bench) start(prepare func(*exec.Cmd), ready, path string, args ...string) error {
	p, err := process.Start(b.ctx, prepare, path, args...)
	if err != nil {
		return err
	}
	b.running = append(b.running, p)
	return p.Await(func() error { return reach(b.ctx, "127.0.0.1:"+ready) })
}

func (b *bench) startLimiter(args []string) (port string, err error) {
	ports, err := freePorts(2)
	if err != nil {
		return "", err
	}
	b.edge = ports[1]
	all := []string{"--config", filepath.Join(b.dir, "rules.yaml"), "--redis.addr", b.redis, "--sidecar.count", "none",
		"--decide.listen", "", "--admin.listen", ""}
	listeners := strings.NewReplacer("{addr}", "127.0.0.1:"+ports[0], "{edge}", "127.0.0.1:"+ports[1])
	for _, a := range args {
		all = append(all, listeners.Replace(a))
	}
	return ports[0], b.start(nil, ports[0], b.ours, all...)
}

// startPeer starts envoyproxy/ratelimit.
func (b *bench) startPeer() (port string, err error) {
	ports, err := freePorts(3)
	if err != nil {
		return "", err
	}
	limits := filepath.Join(b.dir, "ratelimit", "config", "limits.yaml")
	if err := os.MkdirAll(filepath.Dir(limits), 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(limits, []byte(peerLimits), 0o600); err != nil {
		return "", err
	}
	return ports[0], b.start(func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+b.redis, "USE_STATSD=false",
			"LOG_LEVEL=error",
			"GRPC_PORT="+ports[0], "PORT="+ports[1], "DEBUG_PORT="+ports[2],
			"RUNTIME_ROOT="+b.dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false")
	}, ports[0], b.peer)
}

// startGateway starts a gateway and adds its measurement.
func (b *bench) startGateway(q question, who, limiter string, replace []string) error {
	port, err := b.launchGateway(q, limiter, replace)
	if err != nil {
		return err
	}
	b.cases = append(b.cases, func() error {
		t, err := load(b.ctx, "127.0.0.1:"+port, b.rate, b.connections, b.length)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", q.name, who, err)
		}
		b.sheet.Add(q.name, who, t.quantile(0.5), t.quantile(0.99))
		return nil
	})
	return nil
}

// launchGateway starts a gateway, and returns its port.
func (b *bench) launchGateway(q question, limiter string, replace []string) (string, error) {
	ports, err := freePorts(2)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(b.dir, "gateway-")
	if err != nil {
		return "", err
	}
	args, err := q.write(b.deploy, dir, places{ports[0], b.app, limiter, b.edge, ports[1]}, replace)
	if err != nil {
		return "", err
	}
	home := func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir) }
	return ports[0], b.start(home, ports[0], q.program, args...)
}

// reach connects once.
func reach(ctx context.Context, addr string) error {
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// freePorts returns ports of loopback that are free at present.
func freePorts(n int) (ports []string, err error) {
	for range n {
		port, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		ports = append(ports, strconv.Itoa(port))
	}
	return ports, nil
}
