package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/bench/internal/httpload"
	"github.com/hotparam/pipeline/bench/internal/measure"
	"github.com/hotparam/pipeline/bench/internal/process"
)

// peers is the file of an nginx without hotparam. Each of its servers is in front of the application: without a limit,
// with limit_req or with proxy_cache.
const peers = `
events { worker_connections 4096; }
http {
  access_log off;
  error_log {dir}/error.log;
  keepalive_requests 1000000;
  limit_req_zone $arg_id zone=under:10m rate=100000r/s;
  limit_req_zone $arg_id zone=over:1m rate=1r/m;
  limit_req_status 429;
  proxy_cache_path {dir}/cache keys_zone=cache:10m max_size=256m inactive=1m use_temp_path=off;
  proxy_cache_key $scheme$http_host$request_uri;
  proxy_cache_valid 200 301 308 404 1s;
  proxy_cache_use_stale updating error timeout;
  proxy_cache_lock on;
  proxy_cache_background_update on;
  upstream app { server 127.0.0.1:{app}; keepalive 64; }
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_set_header Host $http_host;
  proxy_set_header X-Forwarded-For $remote_addr;
  server { listen {0}; location / { proxy_pass http://app; } }
  server { listen {1}; location / { limit_req zone=under burst=1000 nodelay; proxy_pass http://app; } }
  server {
    listen {2};
    location / { limit_req zone=over; error_page 429 = @refused; proxy_pass http://app; }
    {refused}
  }
  server {
    listen {3};
    limit_req_log_level info;
    location / { limit_req zone=over; error_page 429 = @refused; proxy_pass http://app; }
    {refused}
  }
  server { listen {4}; location / { proxy_cache cache; proxy_pass http://app; } }
  server {
    listen {5};
    open_file_cache max=5000 inactive=1m;
    location / { proxy_cache cache; proxy_pass http://app; }
  }
}
`

// refused responds with the fields and the body of hotparam.lua.
const refused = `location @refused {
      default_type application/problem+json;
      add_header Retry-After 60 always;
      add_header RateLimit '"over";r=0;t=60' always;
      add_header RateLimit-Policy '"over";q=1;w=60' always;
      add_header Cache-Control no-store always;
      return 429 '{"type":"about:blank","title":"Too Many Requests","status":429,
                "reason":"override","rule":"topic","key":"topic?id=viral"}\n';
    }`

// stickTable is the file of an HAProxy without hotparam, which limits by a table of its own.
const stickTable = `
global
    nbthread 1
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout server 30s
    http-error status 429 content-type application/problem+json lf-string ` +
	`'{"type":"about:blank","title":"Too Many Requests","status":429,"reason":"override","rule":"topic",` +
	`"key":"topic?id=viral"}' hdr Retry-After 60 hdr RateLimit '"over";r=0;t=60' ` +
	`hdr RateLimit-Policy '"over";q=1;w=60' hdr Cache-Control no-store
frontend http
    bind {0}
    stick-table type string len 64 size 100k expire 1m store http_req_rate(10s)
    http-request track-sc0 url_param(id)
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000 }
    default_backend app
backend app
    http-request set-header X-Forwarded-For %[src]
    server app 127.0.0.1:{app}
`

const application = `
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 1000000;
  server { listen {0}; location / { return 200 "page page page page page page page page page page page\n"; } }
}
`

// kind is a kind of requests and the status of their responses. A hundred pages are hot. A name with "HAProxy" is for
// HAProxy.
type kind struct {
	name   string
	status int
	target func(i, k int) string
}

var (
	cold     = kind{"cold keys", 200, func(i, k int) string { return "/topic?id=" + strconv.Itoa((i*3131+k)%100_000) }}
	refusals = kind{"refusals", 429, func(int, int) string { return "/topic?id=viral" }}
	coldHA   = kind{"cold keys, HAProxy", cold.status, cold.target}
	refuseHA = kind{"refusals, HAProxy", refusals.status, refusals.target}
	answers  = kind{"cached answers", 200, func(i, k int) string { return "/page?id=" + strconv.Itoa((i*31+k)%100) }}
)

// fullSpeed adds measurements of nginx and HAProxy with one worker, as fast as they answer: alone, nginx with limit_req
// and with proxy_cache; asking the limiter about each request; and deciding themselves.
func (b *bench) fullSpeed() error {
	b.sheet = measure.NewSheet(measure.Higher, "k requests/s", "p50, ms", "p99, ms", "CPU of the gateway, us a request",
		"CPU of hotparam, us a request")
	app, err := b.startNginx(application, 1)
	if err != nil {
		return err
	}
	b.app = app[0]
	ports, err := b.startNginx(peers, 6)
	if err != nil {
		return err
	}
	peer := b.last()
	table, err := b.startHAProxy(stickTable)
	if err != nil {
		return err
	}
	haproxy := b.last()
	limiter, err := freePorts(3)
	if err != nil {
		return err
	}
	b.edge = limiter[1]
	if err := b.start(nil, limiter[0], b.serve, "serve", "--config", filepath.Join(b.dir, "rules.yaml"),
		"--admin.listen", "unix:"+b.dir+"/admin", "--state.dir", b.dir, "--check.dialect", "nginx", "--check.listen",
		"127.0.0.1:"+limiter[0], "--edge.listen", "127.0.0.1:"+limiter[1], "--spoe.listen",
		"127.0.0.1:"+limiter[2]); err != nil {
		return err
	}
	hotparam := b.last()
	limiters := map[string]string{"8185": limiter[0], "8184": limiter[2]}
	for _, g := range []fastGateway{
		{"nginx that decides itself", measure.Ours, false, []kind{cold, refusals, answers}},
		{"nginx, auth_request", "nginx, auth_request", false, []kind{cold}},
		{"HAProxy that decides itself", measure.Ours, false, []kind{coldHA, refuseHA}},
		{"HAProxy, SPOE", "HAProxy alone", true, []kind{coldHA}},
		{"HAProxy, SPOE", "HAProxy, SPOE", false, []kind{coldHA, refuseHA}},
	} {
		if err := b.addGateway(g, limiters, hotparam); err != nil {
			return err
		}
	}
	b.addFast(coldHA, "HAProxy, stick-table", table, haproxy, hotparam)
	b.addFast(refuseHA, "HAProxy, stick-table", table, haproxy, hotparam)
	b.addFast(cold, "nginx alone", ports[0], peer, hotparam)
	b.addFast(cold, "nginx, limit_req", ports[1], peer, hotparam)
	b.addFast(refusals, "nginx, limit_req", ports[2], peer, hotparam)
	b.addFast(refusals, "nginx, limit_req without its log", ports[3], peer, hotparam)
	b.addFast(answers, "nginx, proxy_cache", ports[4], peer, hotparam)
	b.addFast(answers, "nginx, proxy_cache, open_file_cache", ports[5], peer, hotparam)
	return nil
}

// fastGateway is a gateway of deploy/. It is silent if it does not ask the limiter.
type fastGateway struct {
	name, who string
	silent    bool
	kinds     []kind
}

// addGateway adds the measurements of a gateway. limiters holds the ports of limiters by their ports in the files.
func (b *bench) addGateway(g fastGateway, limiters map[string]string, hotparam *process.Process) error {
	all := questions("")
	q := all[slices.IndexFunc(all, func(q question) bool { return q.name == g.name })]
	replace := map[string][]string{
		"nginx":   {"http {", "http { access_log off; keepalive_requests 1000000;"},
		"haproxy": {"log stderr format raw local0", "nbthread 1\n    log stderr format raw local0"},
	}[q.program]
	if g.silent {
		replace = append(replace, q.silence...)
	}
	front, err := b.launchGateway(q, limiters[q.port], replace)
	if err != nil {
		return err
	}
	gateway := b.last()
	for _, k := range g.kinds {
		b.addFast(k, g.who, front, gateway, hotparam)
	}
	return nil
}

func (b *bench) last() *process.Process { return b.running[len(b.running)-1] }

// startNginx starts an nginx with text as its file, and returns the ports of its n servers.
func (b *bench) startNginx(text string, n int) ([]string, error) {
	file, ports, err := b.writeFile(text, n)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(file)
	return ports, b.start(nil, ports[0], "nginx", "-p", dir, "-e", "stderr", "-c", file, "-g",
		"user root; daemon off; pid "+dir+"/pid;")
}

// startHAProxy starts an HAProxy with text as its file, and returns the port of its frontend.
func (b *bench) startHAProxy(text string) (string, error) {
	file, ports, err := b.writeFile(text, 1)
	if err != nil {
		return "", err
	}
	return ports[0], b.start(nil, ports[0], "haproxy", "-db", "-f", file)
}

// writeFile writes the file of a gateway with n free ports into a directory of its own.
func (b *bench) writeFile(text string, n int) (file string, ports []string, err error) {
	if ports, err = freePorts(n); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "gateway-")
	if err != nil {
		return "", nil, err
	}
	replace := []string{"{dir}", dir, "{refused}", refused, "{app}", b.app}
	for i, port := range ports {
		replace = append(replace, fmt.Sprintf("{%d}", i), "127.0.0.1:"+port)
	}
	file = filepath.Join(dir, "conf")
	return file, ports, os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(text)), 0o600)
}

// addFast adds the measurement of one server.
func (b *bench) addFast(k kind, who, port string, nginx, hotparam *process.Process) {
	b.cases = append(b.cases, func() error {
		if _, err := httpload.Run("127.0.0.1:"+port, b.connections, b.length/2, k.target); err != nil { // warms up
			return fmt.Errorf("%s, %s: %w", k.name, who, err)
		}
		before, err := nginx.CPU()
		if err != nil {
			return err
		}
		ours, err := hotparam.CPU()
		if err != nil {
			return err
		}
		got, err := httpload.Run("127.0.0.1:"+port, b.connections, b.length, k.target)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", k.name, who, err)
		}
		after, err := nginx.CPU()
		if err != nil {
			return err
		}
		oursAfter, err := hotparam.CPU()
		if err != nil {
			return err
		}
		if others := got.Requests - got.Status[k.status]; others > got.Requests/50 {
			return fmt.Errorf("%s, %s: %v, want %d", k.name, who, got.Status, k.status)
		}
		n := float64(got.Requests)
		b.sheet.Add(k.name, who, n/got.Took.Seconds()/1e3, got.P50.Seconds()*1e3, got.P99.Seconds()*1e3,
			float64(after-before)/n/1e3, float64(oursAfter-ours)/n/1e3)
		return nil
	})
}
