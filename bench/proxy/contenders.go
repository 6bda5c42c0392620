package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/process"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

const bare = "httputil.ReverseProxy"

const rules = `rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 100000000}, limit: {rate: 100}}
overrides:
  - {key: "topic?id=hot", action: limit, rate: 1, burst: 1, reason: measured}
`

// nginxFile has limits by value: the usual limit is never reached, and the limit of the value hot always.
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
  map $arg_id $hot { default ""; hot hot; }
  map $arg_id $cold { default $arg_id; hot ""; }
  limit_req_zone $hot zone=hot:1m rate=1r/s;
  limit_req_zone $cold zone=cold:10m rate=100000r/s;
  upstream site { server %[3]s; keepalive 64; keepalive_requests 1000000000; }
  server {
    listen %[2]s;
    keepalive_requests 1000000000;
    location / {
      limit_req zone=hot;
      limit_req zone=cold burst=1000 nodelay;
      limit_req_status 429;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_pass http://site;
    }
  }
}
`

func startUpstream(ctx context.Context) (*contender, error) {
	addr, err := freeport.FindAddr()
	if err != nil {
		return nil, err
	}
	return startSelf(ctx, "upstream", addr, "-role", "upstream", "-listen", addr)
}

// startAll starts the contenders that are installed. It also returns them if one fails to start.
func startAll(ctx context.Context, dir, redis, upstream, ours, nginx string) (all []*contender, err error) {
	var addrs [3]string
	for i := range addrs {
		if addrs[i], err = freeport.FindAddr(); err != nil {
			return nil, err
		}
	}
	config := filepath.Join(dir, "hotparam.yaml")
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	sidecar, err := start(ctx, measure.Ours, addrs[0], ours, "--config", config, "--decide.listen", "",
		"--admin.listen", "",
		"--redis.addr", redis, "--sidecar.count", "none", "--proxy.listen", addrs[0], "--proxy.upstream",
		"http://"+upstream)
	if err != nil {
		return all, err
	}
	all = append(all, sidecar)
	plain, err := startSelf(ctx, bare, addrs[1], "-role", "bare", "-listen", addrs[1], "-upstream", "http://"+upstream)
	if err != nil {
		return all, err
	}
	all = append(all, plain)
	path, err := exec.LookPath(nginx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy: without nginx:", err)
		return all, nil
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxFile, dir, addrs[2], upstream), 0o600); err != nil {
		return all, err
	}
	third, err := start(ctx, "nginx, limit_req", addrs[2], path, "-p", dir, "-c", file, "-e",
		filepath.Join(dir, "error"))
	if err != nil {
		return all, err
	}
	return append(all, third), nil
}

func startSelf(ctx context.Context, name, addr string, args ...string) (*contender, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, name, addr, self, args...)
}

// start starts a program and waits until it listens.
func start(ctx context.Context, name, addr, path string, args ...string) (*contender, error) {
	p, err := process.StartListening(ctx, addr, path, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &contender{name, addr, p}, nil
}

func serveUpstream(addr string) error {
	body := bytes.Repeat([]byte("x"), 1024)
	return http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body) // the client may have left
	}))
}

// buffers keeps the buffers of the bare proxy.
type buffers struct{ sync.Pool }

func (b *buffers) Get() []byte  { return b.Pool.Get().([]byte) }
func (b *buffers) Put(p []byte) { b.Pool.Put(p) } //nolint:staticcheck // a slice header each, as others have it

func serveBare(addr, upstream string) error {
	to, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.DisableCompression, transport.Proxy = 256, true, nil
	return http.ListenAndServe(addr, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
		},
		Transport:  transport,
		BufferPool: &buffers{sync.Pool{New: func() any { return make([]byte, 32<<10) }}},
	})
}
