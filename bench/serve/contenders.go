package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

const rules = `rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot: {rate: 200, window: 1s}
    limit: {rate: 100}
    cache: {ttl: 1s}
`

// nginxFile caches the same responses as our rule, for as long, and requests them from the upstream as our cache does.
const nginxFile = `worker_processes 2;
daemon off;
error_log /dev/null crit;
pid %[1]s/nginx.pid;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  proxy_cache_path %[1]s/cache keys_zone=hot:10m max_size=64m inactive=1m use_temp_path=off;
  upstream site { server %[3]s; keepalive 64; keepalive_requests 1000000000; }
  server {
    listen %[2]s;
    keepalive_requests 1000000000;
    location / {
      proxy_cache hot;
      proxy_cache_valid 200 1s;
      proxy_cache_lock on;
      proxy_cache_use_stale error timeout updating http_500 http_502 http_503 http_504;
      proxy_cache_background_update on;
      add_header X-Cache $upstream_cache_status;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_pass http://site;
    }
  }
}
`

// contender is a proxy with a cache that runs.
type contender struct {
	name, addr string
	*process.Process
}

func startOurs(ctx context.Context, dir, path, upstream string) (*contender, error) {
	addr, err := freeport.FindAddr()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "hotparam.yaml")
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, measure.Ours, addr, path, "serve", "--config", config, "--upstream", "http://"+upstream,
		"--listen", addr,
		"--admin.listen", "", "--state.dir", filepath.Join(dir, "state"))
}

func startNginx(ctx context.Context, dir, path, upstream string) (*contender, error) {
	addr, err := freeport.FindAddr()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxFile, dir, addr, upstream), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, "nginx, proxy_cache", addr, path, "-p", dir, "-c", file, "-e", filepath.Join(dir, "error"))
}

// startBare starts a server that has the minimum cost of any server of net/http.
func startBare(ctx context.Context) (*contender, error) {
	addr, err := freeport.FindAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, "(a handler of net/http that only writes)", addr, self, "-bare", addr)
}

// start starts a program and waits until it listens.
func start(ctx context.Context, name, addr, path string, args ...string) (*contender, error) {
	p, err := process.StartListening(ctx, addr, path, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &contender{name, addr, p}, nil
}
