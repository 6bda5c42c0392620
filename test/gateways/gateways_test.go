package gateways

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// kind is a gateway with one way of asking the limiter.
type kind struct {
	// limiter are the arguments of the limiter, which listens at {addr}.
	limiter []string
	// command starts the gateway with a file of deploy/, in which further texts are replaced. The replacements are
	// pairs of a text of the file and its text in the test.
	command func(t *testing.T, p places, replace ...string) *exec.Cmd
	differences
	// closed are the replacements with which requests without a verdict get one of the statuses unanswered. Without
	// such replacements they always get one.
	closed     []string
	unanswered []int
	// silence are the replacements with which the gateway does not ask.
	silence []string
	// bounds are the statuses of requests that the gateway refuses because the check of a request of bound bytes or
	// more may not fit.
	bounds []int
	bound  int
	// decides is true if the gateway denies blocked keys without its limiter (TestGateways_DecideWithoutLimiter).
	decides bool
	// pathOnly is true if the gateway sends no host.
	pathOnly bool
	// rejects are requests that the gateway answers with 400, because its check cannot carry them.
	rejects []string
}

// places are addresses as host:port, except for front, which is the port of the gateway.
type places struct {
	front, limiter, app string
	// patient gateways wait longer for a verdict than the files say: a test machine that is busy must not look like a
	// limiter that fails.
	patient bool
	edge    string // of the limiter's feed
}

// wait returns a replacement of the time-out in a file, if there is one.
func (p places) wait(says, patiently string) []string {
	if p.patient {
		return []string{says, patiently}
	}
	return nil
}

// replacements returns the replacements of the addresses of the gateway, the application and the limiter, and more.
func (p places) replacements(bind, bound, limiter string, more []string) []string {
	return append([]string{bind, bound + p.front, "127.0.0.1:8080", p.app, limiter, p.limiter}, more...)
}

var kinds = map[string]kind{
	"nginx": {
		limiter: []string{"--check.listen", "{addr}", "--check.dialect", "nginx", "--check.request_id", "X-Request-ID"},
		command: nginx, differences: differences{fields: true, allowed: true, refused: spellings},
		closed: []string{"error_page 500 502 503 504 = @unanswered;", ""}, unanswered: []int{500},
		silence: []string{"auth_request /_check;", ""},
	},
	"nginx that decides itself": {
		limiter: append(slices.Clone(decidingNginx.listen), "--edge.listen", "{edge}"),
		command: decidingNginx.byRules, differences: differences{fields: true, allowed: true, refused: spellings},
		silence: []string{"return hotparam.decide()", "return ''"}, decides: true,
	},
	"ingress-nginx": {
		limiter: []string{"--check.listen", "{addr}", "--check.dialect", "ingress-nginx", "--check.token",
			"0123456789abcdef"},
		command: ingressNginx, differences: differences{fields: true, allowed: true, refused: spellings},
		closed: []string{"error_page 500 502 503 504 = @hotparam_unanswered;", ""}, unanswered: []int{500},
		silence: []string{"/auth-url", "/none"},
		rejects: []string{`host "a?b"`, `target "http://news.example?x=1"`, `target "http://news.example?id={id}"`,
			`target "http://news.example?id={id}&x=/"`},
	},
	"Caddy": {
		limiter: forwarded, command: caddy, differences: differences{fields: true, allowed: true, refused: spellings},
		closed: []string{"@silent {", "@silent {\n\t\t\tpath /none"}, unanswered: []int{502, 504},
		silence: []string{"reverse_proxy 127.0.0.1:8185", "@none path /none\n\t\treverse_proxy @none 127.0.0.1:8185"},
		bounds:  []int{431}, bound: 60_000,
	},
	"Traefik": {
		limiter: forwarded, command: traefik, differences: differences{fields: true, refused: spellings},
		silence: []string{"      middlewares: [hotparam]\n", ""}, bounds: []int{431}, bound: 60_000,
		closed: []string{"[unanswered, internals]", "[internals]"}, unanswered: []int{502, 504},
	},
	"HAProxy with SPOE": {
		limiter: []string{"--spoe.listen", "{addr}"}, command: haproxySPOE,
		differences: differences{fields: true, allowed: true, refused: append(spellings, absolute)},
		closed:      []string{"#   http-request deny", "http-request deny"}, unanswered: []int{503},
		silence: []string{"http-request send-spoe-group hotparam", "# ask by"},
	},
	"HAProxy that decides itself": {
		limiter:     append(slices.Clone(decidingHAProxy.listen), "--edge.listen", "{edge}"),
		command:     decidingHAProxy.byRules,
		differences: differences{fields: true, allowed: true, refused: append(spellings, absolute)},
		silence:     []string{"var(txn.hotparam.request),lua.hotparam-decide", "str(pass)"}, decides: true,
		bounds: []int{431}, bound: 16_000,
	},
	"Envoy, external authorization": {
		limiter: []string{"--envoy.listen", "{addr}"}, command: envoy("ext_authz.yaml", "8183"),
		differences: differences{fields: true, allowed: true, refused: append(spellings, "/topic?id=viral&\xff=1")},
		closed:      []string{"failure_mode_allow: true", "failure_mode_allow: false"}, unanswered: []int{403},
		silence: envoySilence,
	},
	"Envoy, external authorization by HTTP": {
		limiter:     []string{"--check.listen", "{addr}", "--check.dialect", "path"},
		command:     envoy("ext_authz_http.yaml", "8185"),
		differences: differences{fields: true, allowed: true, refused: spellings},
		closed:      []string{"failure_mode_allow: true", "failure_mode_allow: false"}, unanswered: []int{403},
		silence: envoySilence,
		rejects: []string{`host "u@h"`, `host "u:p@h:80"`},
	},
	"Envoy, rate limit service": {
		limiter: []string{"--envoy.listen", "{addr}"}, command: envoy("ratelimit.yaml", "8183"),
		differences: differences{
			refused: append(slices.Clone(spellings), "/%74opic?id=viral", "/topic?i%64=viral"),
			passed:  []string{"/topic?id=%FF", "/topic", "/elsewhere?id=viral"},
		},
		closed: []string{"failure_mode_deny: false", "failure_mode_deny: true"}, unanswered: []int{500},
		silence: []string{`header_name: ":path"`, "header_name: x-none", "{remote_address: {}}",
			"{request_headers: {header_name: x-none, descriptor_key: none}}"},
		pathOnly: true,
	},
}

var envoySilence = []string{"failure_mode_allow: true",
	"failure_mode_allow: true\n              filter_enabled: {default_value: {numerator: 0}}"}

// forwarded are the arguments of a limiter for gateways that write X-Forwarded fields.
var forwarded = []string{"--check.listen", "{addr}", "--check.dialect", "forwarded"}

// spellings are the spellings of the viral topic that a limiter with the whole request must recognize.
var spellings = []string{"/topic?id=other&id=viral", "/topic?&id=viral&"}

const absolute = "http://news.example/topic?id=viral"

// withPlugins returns all kinds.
func withPlugins() map[string]kind {
	all := maps.Clone(kinds)
	for name := range plugins {
		all["the plugin for "+name] = pluginKind(name)
	}
	return all
}

// Every gateway limits only hot keys, knows clients, on a socket for IPv4 and IPv6 too, trusts no field in which a
// client describes itself, and keeps the promise of its file while the limiter does not answer.
func TestGateways_LimitOnlyHotKeys(t *testing.T) {
	t.Parallel()
	for name, k := range withPlugins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, l := startApp(t), startLimiter(t, k.limiter...)
			p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
			g := startGateway(t, forBothFamilies(t, k.command(t, p), p.front), "127.0.0.1:"+p.front, blocked, 429)
			d := k.differences
			d.passed = append(d.passed, "/topic?id=cold")
			d.judge(t, g, a)
			notFooled(t, g)
			suspected := func(func()) {}
			if k.decides {
				suspected = func(send func()) { l.awaitSuspicion(t, send) }
			}
			knowsClients(t, g, a, suspected)
			if k.decides {
				return
			}
			p.patient = false
			if k.closed != nil {
				p.front = strconv.Itoa(freeport.Port(t))
				fails(t, startGateway(t, k.command(t, p), "127.0.0.1:"+p.front, blocked, 429), l, []int{200})
			}
			p.front = strconv.Itoa(freeport.Port(t))
			fails(t, startGateway(t, k.command(t, p, k.closed...), "127.0.0.1:"+p.front, blocked, 429), l, k.unanswered)
		})
	}
}

// installed returns the path of a gateway from Debian's packages.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if redistest.RequireAll() {
		t.Fatalf("%v: apt-get install %s", err, name)
	}
	t.Skipf("no %s: install it", name)
	return ""
}

func nginx(t *testing.T, p places, replace ...string) *exec.Cmd {
	path, dir := installed(t, "nginx"), t.TempDir()
	replace = append(replace, p.wait("100ms", "5s")...)
	config := deployed(t, "nginx/nginx.conf", p.replacements("listen 10000", "listen 127.0.0.1:", "127.0.0.1:8185",
		replace)...)
	return exec.Command(path, "-p", dir, "-e", "stderr", "-c", config, "-g", "daemon off; pid "+dir+"/pid;")
}

func caddy(t *testing.T, p places, replace ...string) *exec.Cmd {
	path := installed(t, "caddy")
	replace = append(replace, p.wait("100ms", "5s")...)
	config := deployed(t, "caddy/Caddyfile", p.replacements("\n:10000", "\n:", "127.0.0.1:8185", replace)...)
	// Its administration would take a port that all Caddies share.
	config = edited(t, config, func(text string) string {
		return "{\n\tadmin off\n\tdefault_bind 127.0.0.1\n}\n" + text
	})
	cmd := exec.Command(path, "run", "--config", config, "--adapter", "caddyfile")
	cmd.Env = append(cmd.Environ(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir())
	return cmd
}

func haproxySPOE(t *testing.T, p places, replace ...string) *exec.Cmd {
	path, spoe := installed(t, "haproxy"), deployed(t, "haproxy/hotparam.spoe", p.wait("100ms", "5s")...)
	config := deployed(t, "haproxy/haproxy.cfg", p.replacements("bind :10000", "bind 127.0.0.1:", "127.0.0.1:8184",
		append(replace, "/etc/haproxy/hotparam.spoe", spoe))...)
	return exec.Command(path, "-db", "-f", config, "-p", filepath.Join(t.TempDir(), "pid"))
}

// envoy starts an Envoy with a file of deploy/envoy that asks the limiter at this port.
func envoy(file, port string) func(*testing.T, places, ...string) *exec.Cmd {
	return func(t *testing.T, p places, replace ...string) *exec.Cmd {
		replace = append(replace, p.wait("timeout: 0.1s", "timeout: 5s")...)
		value := func(addr string) string { return "port_value: " + addr[strings.LastIndexByte(addr, ':')+1:] }
		config := deployed(t, "envoy/"+file, append(replace,
			"port_value: 10000", "port_value: "+p.front, "0.0.0.0", "127.0.0.1", "port_value: 8080", value(p.app),
			"port_value: "+port, value(p.limiter), "port_value: 9901",
			"port_value: "+strconv.Itoa(freeport.Port(t)))...)
		return exec.Command(envoyProgram(t), "-c", config, "--concurrency", "2", "--log-level", "warning",
			"--disable-hot-restart")
	}
}
