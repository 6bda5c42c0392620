package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// ourRules limit each topic, and the topic with a crowd, as if it were hot. A page is cold, so it has no limit, and
// Redis is not asked for it. The budget for Redis is the default of 20 ms; after it a limiter decides by its share.
var ourRules = fmt.Sprintf(`rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1000000}, limit: {rate: %[1]d, burst: %[2]d}}
  - {name: crowd, match: {path: /crowd}, params: [id], hot: {rate: 1000000},
     limit: {rate: %[1]d, burst: %[2]d, fair: true}}
  - {name: page, match: {path: /page}, params: [id], hot: {rate: 1000000}, limit: {rate: %[1]d, burst: %[2]d}}
overrides:
  - {resource: topic, rate: %[1]d, burst: %[2]d}
  - {key: %[3]q, rate: %[1]d, burst: %[2]d}
`, rate, burst, crowded)

// ours returns the contender of this project: two sidecars, asked over HTTP.
func ours(commit string) contender {
	return contender{name: measure.Ours, version: commit, kind: "token bucket of 20; fair for the crowd",
		most: bucket(burst), open: openOurs, redis: true, cluster: true}
}

// buildOurs makes the program of this work tree.
func buildOurs(ctx context.Context, dir string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", "./cmd/limiter-sidecar")
	build.Dir, build.Stderr = "..", os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("limit: build the sidecar, from bench/: %w", err)
	}
	return nil
}

func openOurs(ctx context.Context, dir string, addrs []string) (*deployment, error) {
	rules := filepath.Join(dir, "hotparam.yaml")
	if err := os.WriteFile(rules, []byte(ourRules), 0o600); err != nil {
		return nil, err
	}
	d := &deployment{}
	var running []*process.Process
	d.stop = func() {
		for _, p := range running {
			p.End()
		}
	}
	for i := range d.doors {
		addr, err := freeport.FindAddr()
		if err != nil {
			d.stop()
			return nil, err
		}
		p, err := process.StartListening(ctx, addr, filepath.Join(dir, "../limiter-sidecar"), "--config", rules,
			"--redis.addr", strings.Join(addrs, ","), "--decide.listen", addr, "--check.listen", "", "--admin.listen",
			"", "--sidecar.count", "none")
		if err != nil {
			d.stop()
			return nil, err
		}
		running = append(running, p)
		d.doors[i] = askDecide("http://" + addr + "/v1/decide")
	}
	return d, nil
}

// verdict is the part of an answer of /v1/decide that is read.
type verdict struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	Key     string `json:"key"`
}

// askDecide returns a function that asks a sidecar.
func askDecide(url string) ask {
	w := newWeb()
	return func(ctx context.Context, key, client string) (bool, error) {
		var v verdict
		if err := w.post(ctx, url, map[string]string{"method": "GET", "uri": "/" + key, "host": "news.example",
			"ip": client}, &v); err != nil {
			return false, err
		}
		if v.Key != key {
			return false, fmt.Errorf("limit: asked for %s, answered for %+v", key, v)
		}
		return v.Allowed, nil
	}
}
