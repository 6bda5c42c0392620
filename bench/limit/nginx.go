package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// nginxFile makes two workers that share the limits. The response comes from a module, because limit_req would not see
// what return responds to. Refusals are not logged.
const nginxFile = `
worker_processes 2;
error_log {dir}/error.log crit;
pid {dir}/pid;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  keepalive_requests 1000000;
  limit_req_zone $arg_key zone=bench:10m rate={rate}r/s;
  limit_req_status 429;
  server {
    listen {addr};
    location / { limit_req zone=bench burst={burst} nodelay; empty_gif; }
  }
}
`

// openNginx starts one nginx, which both doors ask. It has no state that fails without the doors, because it stands in
// front of the service.
func openNginx(ctx context.Context, dir string) (*deployment, error) {
	s, own, addrs, err := newServer(dir, "nginx", 1)
	if err != nil {
		return nil, err
	}
	s.addr = addrs[0]
	file := filepath.Join(own, "nginx.conf")
	text := strings.NewReplacer("{dir}", own, "{addr}", s.addr,
		"{rate}", strconv.Itoa(rate), "{burst}", strconv.Itoa(burst))
	if err := os.WriteFile(file, []byte(text.Replace(nginxFile)), 0o600); err != nil {
		return nil, err
	}
	s.args = []string{"-p", own, "-e", "stderr", "-c", file, "-g", "daemon off;"}
	if err := s.start(ctx); err != nil {
		s.stop()
		return nil, err
	}
	first, second := newWeb(), newWeb()
	return &deployment{
		doors: [2]ask{askNginx(first, s.addr), askNginx(second, s.addr)},
		stop: func() {
			first.CloseIdleConnections()
			second.CloseIdleConnections()
			s.stop()
		},
	}, nil
}

func askNginx(w *web, addr string) ask {
	return func(ctx context.Context, key, _ string) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/?key="+url.QueryEscape(key), nil)
		if err != nil {
			return false, err
		}
		status, _, err := w.do(req)
		if err != nil {
			return false, err
		}
		if status != http.StatusOK && status != http.StatusTooManyRequests {
			return false, fmt.Errorf("nginx: status %d", status)
		}
		return status == http.StatusOK, nil
	}
}
