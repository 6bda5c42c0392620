package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/bench/internal/redisserver"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

// programs runs the real programs in front of an upstream, in a directory of its own. Stop it.
type programs struct {
	dir      string
	bin      string // directory of the programs
	rules    string // file
	upstream string // URL
	secret   visitorpass.Secret
	running  []interface{ Stop() }
}

// newPrograms prepares programs with a rules file. It starts none.
func newPrograms(bin, rulesFile, upstream string) (*programs, error) {
	dir, err := os.MkdirTemp("", "hotparam-flood-")
	if err != nil {
		return nil, fmt.Errorf("flood: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // nginx started by root has workers of another user
		return nil, err
	}
	p := &programs{dir: dir, bin: bin, rules: filepath.Join(dir, "hotparam.yaml"), upstream: upstream,
		secret: visitorpass.Secret{1}}
	return p, os.WriteFile(p.rules, []byte(rulesFile), 0o644)
}

// Stop stops all programs, the last first, and removes the directory.
func (p *programs) Stop() {
	for i := len(p.running) - 1; i >= 0; i-- {
		p.running[i].Stop()
	}
	_ = os.RemoveAll(p.dir) // a directory that is left behind does no harm
}

// build builds programs into a directory.
func build(ctx context.Context, dir string, names ...string) error {
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = "..", os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("flood: build %s: %w", strings.Join(names, ", "), err)
	}
	return nil
}

// start starts a program of ours that listens at an address.
func (p *programs) start(ctx context.Context, listen, name string, args ...string) error {
	args = append([]string{"--config", p.rules, "--log.level", "warn"}, args...)
	one, err := process.StartListening(ctx, listen, filepath.Join(p.bin, name), args...)
	if err != nil {
		return err
	}
	p.running = append(p.running, one)
	return nil
}

// startServe starts one process, which knows the passes of before, and returns its URL.
func (p *programs) startServe(ctx context.Context) ([]string, error) {
	addr, err := freeport.FindAddr()
	if err != nil {
		return nil, err
	}
	return []string{"http://" + addr}, p.serve(ctx, addr, "--proxy.listen", addr)
}

func (p *programs) serve(ctx context.Context, listen string, args ...string) error {
	if err := p.storeSecrets(filepath.Join(p.dir, "pass-secrets.json")); err != nil {
		return err
	}
	return p.start(ctx, listen, "serve", append(args, "--state.dir", p.dir, "--upstream", p.upstream, "--admin.listen",
		"")...)
}

// secretDays returns the days of the passes of a cell, which may have been issued yesterday.
func secretDays() []int64 {
	today := visitorpass.Day(time.Now())
	return []int64{today - 1, today, today + 1}
}

// storeSecrets writes the secrets of passes to a state directory.
func (p *programs) storeSecrets(file string) error {
	secrets := map[string]string{}
	for _, day := range secretDays() {
		secrets[strconv.FormatInt(day, 10)] = p.secret.Encode()
	}
	text, err := json.Marshal(map[string]any{"version": 1, "secrets": secrets})
	if err != nil {
		return fmt.Errorf("flood: %w", err)
	}
	return os.WriteFile(file, text, 0o600)
}

// startSidecars starts Redis, an aggregator and two sidecars, which proxy, and returns the URLs of the sidecars.
func (p *programs) startSidecars(ctx context.Context) (urls []string, err error) {
	redis, err := redisserver.Start(ctx, "redis-server")
	if err != nil {
		return nil, err
	}
	p.running = append(p.running, redis)
	client := redis.Client()
	defer client.Close()
	for _, day := range secretDays() {
		key := redisclient.NewKeys("default").PassSecret(day)
		if err := client.Set(ctx, key, p.secret.Encode(), time.Hour).Err(); err != nil {
			return nil, fmt.Errorf("flood: %w", err)
		}
	}
	statsd, err := freeport.FindAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeport.FindAddr()
	if err != nil {
		return nil, err
	}
	err = p.start(ctx, admin, "aggregator", "--redis.addr", redis.Addr, "--statsd.listen", statsd, "--admin.listen",
		admin)
	for range 2 {
		if err != nil {
			return nil, err
		}
		var addr string
		if addr, err = freeport.FindAddr(); err != nil {
			return nil, err
		}
		urls = append(urls, "http://"+addr)
		err = p.start(ctx, addr, "limiter-sidecar", "--redis.addr", redis.Addr, "--statsd.addr", statsd,
			"--decide.listen", "", "--proxy.listen", addr, "--proxy.upstream", p.upstream, "--admin.listen", "")
	}
	return urls, err
}

// startNginx starts one process that answers nginx, and nginx with the file of deploy/nginx, and returns the URL of
// nginx.
func (p *programs) startNginx(ctx context.Context) ([]string, error) {
	check, err := freeport.FindAddr()
	if err != nil {
		return nil, err
	}
	err = p.serve(ctx, check, "--check.listen", check, "--check.dialect", "nginx", "--proxy.listen", "")
	if err != nil {
		return nil, err
	}
	addr, err := freeport.FindAddr()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile("../deploy/nginx/nginx.conf")
	if err != nil {
		return nil, fmt.Errorf("flood: %w", err)
	}
	conf, file := string(text), filepath.Join(p.dir, "nginx.conf")
	for old, own := range map[string]string{
		"127.0.0.1:8080": strings.TrimPrefix(p.upstream, "http://"), "127.0.0.1:8185": check,
		"listen 10000;": "listen " + addr + ";",
		// The clients of this program name themselves, as behind a load balancer.
		"http {": "http { access_log off; set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;",
	} {
		if !strings.Contains(conf, old) {
			return nil, errors.New("flood: deploy/nginx/nginx.conf has no " + old)
		}
		conf = strings.ReplaceAll(conf, old, own)
	}
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		return nil, fmt.Errorf("flood: %w", err)
	}
	one, err := process.StartListening(ctx, addr, "nginx", "-p", p.dir, "-e", "stderr", "-c", file, "-g",
		"user root; daemon off; pid "+p.dir+"/pid;")
	if err != nil {
		return nil, err
	}
	p.running = append(p.running, ender{one})
	return []string{"http://" + addr}, nil
}

// ender is a program with processes of its own, which is asked to end.
type ender struct{ process *process.Process }

// Stop ends the program.
func (e ender) Stop() { e.process.End() }

// listenUpstream returns the server of a sleeping upstream, and its URL.
func listenUpstream() (*http.Server, string, error) {
	addr, err := freeport.FindAddr()
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{Addr: addr, Handler: newSleepingUpstream()}
	go func() { _ = server.ListenAndServe() }() // until it is closed
	return server, "http://" + addr, nil
}
