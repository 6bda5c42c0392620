package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/bench/internal/redisserver"
)

// world holds the common parts of all ways: the programs and a Redis. Close it.
type world struct {
	ctx   context.Context
	dir   string
	redis *redisserver.Server
	sites int
}

// openWorld builds the programs and starts Redis.
func openWorld(ctx context.Context, server string) (*world, error) {
	dir, err := os.MkdirTemp("", "hotparam-latency-")
	if err != nil {
		return nil, err
	}
	w := &world{ctx: ctx, dir: dir}
	if err := w.build(); err != nil {
		w.close()
		return nil, err
	}
	if w.redis, err = redisserver.Start(ctx, server); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) close() {
	if w.redis != nil {
		w.redis.Stop()
	}
	_ = os.RemoveAll(w.dir) // a remaining directory does no harm
}

// build compiles the programs in their own module.
func (w *world) build() error {
	module, err := exec.CommandContext(w.ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/hotparam/pipeline").
		Output()
	if err != nil {
		return fmt.Errorf("where is the module? Run this in bench/: %w", err)
	}
	cmd := exec.CommandContext(w.ctx, "go", "build", "-C", strings.TrimSpace(string(module)),
		"-o", w.dir+string(filepath.Separator), "./cmd/aggregator", "./cmd/limiter-sidecar")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

func (w *world) start(name string, args ...string) (*process.Process, error) {
	return process.Start(w.ctx, func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr },
		filepath.Join(w.dir, name), args...)
}

// next returns the number of the next site.
func (w *world) next() int {
	w.sites++
	return w.sites
}

// sidecar is a limiter-sidecar that is asked over HTTP. Only one goroutine uses it.
type sidecar struct {
	url    string
	client http.Client
}

func newSidecar(addr string) *sidecar {
	return &sidecar{url: "http://" + addr + "/v1/decide",
		client: http.Client{Transport: new(http.Transport), Timeout: 5 * time.Second}}
}

// await asks until the sidecar answers.
func (s *sidecar) await(ctx context.Context) error {
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if _, err = s.ask(ctx, []string{uri(0)}); err == nil {
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("the sidecar does not answer: %w", err)
}

// check is one question, and verdict one answer.
type check struct {
	Method string `json:"method"`
	URI    string `json:"uri"`
	Host   string `json:"host"`
	IP     string `json:"ip"`
}

type verdict struct {
	Allowed bool `json:"allowed"`
}

// ask implements limiter.
func (s *sidecar) ask(ctx context.Context, uris []string) ([]bool, error) {
	checks := make([]check, len(uris))
	for i, uri := range uris {
		checks[i] = check{"GET", uri, "news.example", client(i).Addr.String()}
	}
	body, err := json.Marshal(checks)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	var verdicts []verdict
	if err := json.Unmarshal(text, &verdicts); err != nil || len(verdicts) != len(uris) {
		return nil, fmt.Errorf("%s answered %s %.200s", s.url, res.Status, text)
	}
	allowed := make([]bool, len(uris))
	for i := range verdicts {
		allowed[i] = verdicts[i].Allowed
	}
	return allowed, nil
}
