package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/edge"
)

// question is a gateway and the way in which it asks the limiter.
type question struct {
	name    string
	program string
	args    []string // {dir} is the folder of the files
	files   []string // of deploy/; args name the first file as {file}
	limiter []string // arguments of the limiter, which listens at {addr}
	port    string   // port of the limiter in the files
	silence []string // replacements, in pairs, that leave the question out
}

// forwarded holds the arguments of a limiter for gateways that write X-Forwarded fields.
var forwarded = []string{"--check.listen", "{addr}", "--check.dialect", "forwarded"}

func questions(envoy string) []question {
	haproxy := []string{"-db", "-f", "{file}"}
	envoyArgs := []string{"-c", "{file}", "--concurrency", "2", "--log-level", "error", "--disable-hot-restart"}
	nginx := []string{"-p", "{dir}", "-e", "stderr", "-c", "{file}", "-g", "user root; daemon off; pid {dir}/pid;"}
	return []question{
		{"nginx, auth_request", "nginx", nginx,
			[]string{"nginx/nginx.conf"}, []string{"--check.listen", "{addr}", "--check.dialect", "nginx"}, "8185",
			[]string{"auth_request /_check;", ""}},
		{"nginx that decides itself", "nginx", nginx,
			[]string{"nginx/edge.conf", "nginx/hotparam.lua"},
			[]string{"--check.listen", "{addr}", "--check.dialect", "nginx", "--edge.listen", "{edge}"}, "8185",
			[]string{"return hotparam.decide()", "return ''"}},
		{"Caddy, forward_auth", "caddy", []string{"run", "--config", "{file}", "--adapter", "caddyfile"},
			[]string{"caddy/Caddyfile"}, forwarded, "8185",
			[]string{"reverse_proxy 127.0.0.1:8185", "@none path /none\n\t\treverse_proxy @none 127.0.0.1:8185"}},
		{"HAProxy, SPOE", "haproxy", haproxy, []string{"haproxy/haproxy.cfg", "haproxy/hotparam.spoe"},
			[]string{"--spoe.listen", "{addr}"}, "8184", []string{"http-request send-spoe-group hotparam", "# ask by"}},
		{"HAProxy that decides itself", "haproxy", haproxy,
			[]string{"haproxy/edge.cfg", "haproxy/edge.lua", "haproxy/edge.spoe", "haproxy/edge.denied",
				"haproxy/edge.exempt", "nginx/hotparam.lua"},
			[]string{"--spoe.listen", "{addr}", "--edge.listen", "{edge}"}, "8184",
			[]string{"var(txn.hotparam.request),lua.hotparam-decide", "str(pass)"}},
		{"Envoy, external authorization", envoy, envoyArgs, []string{"envoy/ext_authz.yaml"},
			[]string{"--envoy.listen", "{addr}"},
			"8183", envoySilence},
		{"Envoy, the same by HTTP", envoy, envoyArgs, []string{"envoy/ext_authz_http.yaml"},
			[]string{"--check.listen", "{addr}", "--check.dialect", "path"}, "8185", envoySilence},
		{"Envoy, rate limit service", envoy, envoyArgs, []string{"envoy/ratelimit.yaml"},
			[]string{"--envoy.listen", "{addr}"}, "8183",
			[]string{"filters.http.ratelimit\n", "filters.http.ratelimit\n            disabled: true\n"}},
	}
}

var envoySilence = []string{"failure_mode_allow: true",
	"failure_mode_allow: true\n              filter_enabled: {default_value: {numerator: 0}}"}

// places holds ports: of the gateway, the application, the limiter, its feed, and administration.
type places struct{ front, app, limiter, edge, admin string }

// write writes the files of a gateway with other ports, and returns its arguments.
func (q question) write(deploy, dir string, p places, replace []string) ([]string, error) {
	replace = append(append([]string{}, replace...), "10000", p.front, "8080", p.app, q.port, p.limiter, "9901",
		p.admin, "8186", p.edge, "8187", p.admin, "/etc/haproxy/hotparam/", dir+"/", "/etc/haproxy", dir,
		"/etc/nginx", dir, "/run/nginx", dir+"/nginx", "/var/lib/nginx", dir)
	r := strings.NewReplacer(replace...)
	var first string
	for i, name := range q.files {
		text, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			return nil, err
		}
		out := r.Replace(string(text))
		if strings.HasSuffix(name, "Caddyfile") {
			out = "{\n\tadmin off\n}\n" + out
		}
		path := filepath.Join(dir, filepath.Base(name))
		if i == 0 {
			first = path
		}
		if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
			return nil, err
		}
	}
	set, err := rules.Parse("rules.yaml", []byte(ruleText))
	if err != nil {
		return nil, err
	}
	for name, keys := range map[string]string{"hotparam.map.conf": edge.Nginx(set), "keys.map": edge.HAProxy(set)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(keys), 0o600); err != nil {
			return nil, err
		}
	}
	if first == "" {
		return nil, fmt.Errorf("gateways: %s has no file", q.name)
	}
	var args []string
	for _, a := range q.args {
		args = append(args, strings.NewReplacer("{file}", first, "{dir}", dir).Replace(a))
	}
	return args, nil
}
