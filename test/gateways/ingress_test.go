package gateways

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// ingressConf replaces a cluster: nginx runs with the configuration that the controller makes of the annotations of
// deploy/nginx/ingress.yaml. Of the controller's own file these are the lines that describe the request to the sidecar
// and to the application.
const ingressConf = `
events {}
http {
	map $http_x_request_id $req_id { default $http_x_request_id; "" $request_id; }
	large_client_header_buffers 4 8k;
	client_header_buffer_size 1k;
	proxy_http_version 1.1;
	server {
		listen 127.0.0.1:{front};
		{server-snippet}
		location = /_external-auth {
			internal;
			proxy_pass_request_body off;
			proxy_set_header Content-Length "";
			proxy_set_header X-Forwarded-Proto "";
			proxy_set_header X-Request-ID $req_id;
			proxy_set_header Host hotparam-limiter.hotparam.svc.cluster.local;
			proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
			proxy_set_header X-Original-Method $request_method;
			proxy_set_header X-Sent-From "nginx-ingress-controller";
			proxy_set_header X-Real-IP $remote_addr;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Auth-Request-Redirect $request_uri;
			proxy_buffer_size 4k;
			proxy_buffers 4 4k;
			proxy_pass_request_headers on;
			{auth-snippet}
			set $target {auth-url};
			proxy_pass $target;
		}
		location / {
			{auth_request}
			proxy_set_header Host $http_host;
			proxy_set_header X-Request-ID $req_id;
			proxy_set_header X-Real-IP $remote_addr;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Original-Forwarded-For $http_x_forwarded_for;
			{configuration-snippet}
			proxy_pass http://{app};
		}
	}
}
`

func ingressNginx(t *testing.T, p places, replace ...string) *exec.Cmd {
	path, dir := installed(t, "nginx"), t.TempDir()
	file := deployed(t, "nginx/ingress.yaml", append(append(replace, p.wait("100ms", "5s")...),
		"hotparam-limiter.hotparam.svc.cluster.local:8185", p.limiter, "TOKEN", "0123456789abcdef")...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var ingress struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := yaml.Unmarshal(text, &ingress); err != nil {
		t.Fatal(err)
	}
	values := []string{"{front}", p.front, "{app}", p.app, "{auth_request}", ""}
	for name, value := range ingress.Metadata.Annotations {
		_, name, _ = strings.Cut(name, "/")
		values = append(values, "{"+name+"}", value)
		if name == "auth-url" {
			values = append([]string{"{auth_request}", "auth_request /_external-auth;"}, values...)
		}
	}
	config := filepath.Join(dir, "nginx.conf")
	conf := strings.NewReplacer(append(values, "{auth-url}", "http://127.0.0.1")...).Replace(ingressConf)
	if err := os.WriteFile(config, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command(path, "-p", dir, "-e", "stderr", "-c", config, "-g", "daemon off; pid "+dir+"/pid;")
}
