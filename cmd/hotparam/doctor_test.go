package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/internal/operator/doctor"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/serving/listener"
	"github.com/hotparam/pipeline/internal/serving/respcache"
)

// TestMain runs the program itself if a test started it.
func TestMain(m *testing.M) {
	if os.Getenv("HOTPARAM_TEST_MAIN") != "" {
		os.Exit(start(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// running is a hotparam doctor in a process of its own, because it reads the environment and the terminal.
type running struct {
	cmd         *exec.Cmd
	out, errOut bytes.Buffer
}

// startDoctor starts a doctor. Tests start several before they wait, because each watches the kernel for a second.
func startDoctor(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{cmd: exec.Command(os.Args[0], append([]string{"doctor"}, args...)...)}
	r.cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1")
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.errOut
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// wait waits until a doctor has ended. report is empty without -o json.
func (r *running) wait(t *testing.T) (report doctor.Report, text string, code int) {
	t.Helper()
	_ = r.cmd.Wait() // the exit code is judged
	if strings.HasPrefix(r.out.String(), "{") {
		if err := json.Unmarshal(r.out.Bytes(), &report); err != nil {
			t.Errorf("%v in %s", err, &r.out)
		}
	}
	return report, r.out.String() + r.errOut.String(), r.cmd.ProcessState.ExitCode()
}

// losesNow reports whether this machine drops datagrams while the test runs, which is a finding of its own.
func losesNow(text string) bool { return strings.Contains(text, "were thrown away in the last") }

const goodRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200, window: 5s}, limit: {rate: 100, burst: 200, scope: instance}}
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hotparam.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDoctor_ExitCodeReflectsFindings(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := ln.Addr().String()
	_ = ln.Close()
	cases := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"nothing fails", []string{"-c", write(t, goodRules)}, 0, "rules: 1, overrides: 0; each can take effect"},
		{"Redis is gone", []string{"-c", write(t, goodRules+"redis: {addr: ["+gone+"]}\n")}, 1,
			"redis-cli -h 127.0.0.1"},
		{"Kafka is gone", []string{"--kafka.brokers", gone}, 1, "cannot reach brokers"},
		{"StatsD is gone", []string{"--statsd.addr", gone}, 1, "no server listens"},
		{"a bad file", []string{"-c", write(t, "rules: [{name: topic}]\n")}, 1,
			"hotparam.yaml:1: rules[0].hot: is missing"},
		{"no such file", []string{"-c", "absent.yaml"}, 1, "absent.yaml"},
		{"a setting that cannot be", []string{"--redis.addr", "127.0.0.1:70000"}, 1, "fix --redis.addr"},
		{"usage", []string{"--redis.adr", "x"}, 2, "unknown flag"},
	}
	doctors := make([]*running, len(cases))
	for i, tt := range cases {
		doctors[i] = startDoctor(t, tt.args...)
	}
	for i, tt := range cases {
		_, text, code := doctors[i].wait(t)
		if tt.code == 0 && losesNow(text) {
			code = 0
		}
		if code != tt.code || !strings.Contains(text, tt.says) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", tt.name, code, tt.code, tt.says, text)
		}
	}
}

// The response cache and memory are judged by the metrics of a running program.
func TestDoctor_JudgesMetricsOfRunningProgram(t *testing.T) {
	t.Parallel()
	admin := func(parts ...metrics.Collector) string {
		page := metrics.New("news", "1.2.3", slog.New(slog.DiscardHandler), parts...)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" || r.Header.Get("Authorization") != "Bearer 0123456789abcdef" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			page.ServeHTTP(w, r)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	cache := metrics.Of(func() respcache.Stats { return respcache.Stats{} })
	silent := metrics.Of(func() []respcache.SilentStats {
		return []respcache.SilentStats{{Rule: "topic", Stored: 1 << 30}, {Rule: `a"b`, Upstream: "slow", Stored: 2}}
	})
	listeners := metrics.Of(func() metrics.ListenerStats {
		return metrics.ListenerStats{Listeners: map[string]listener.Stats{"proxy": {MemoryBound: 2 << 30}},
			MemoryLimit: 3 << 30}
	})
	gateways := func(n int) metrics.Collector {
		return metrics.Of(func() metrics.GatewayStats {
			return metrics.GatewayStats{Refused: map[string]int{"check": n, "edge": 0}}
		})
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<!doctype html><p>welcome"))
	}))
	t.Cleanup(page.Close)
	html := page.URL
	caching := write(t, strings.Replace(goodRules, "limit:", "cache: {}, limit:", 1))
	cases := []struct {
		name, admin, token string
		code               int
		says               []string
	}{
		{"silent upstreams", admin(cache, silent), "0123456789abcdef", 0, []string{
			"rule topic: 1073741824 stored responses of the default upstream came with neither Cache-Control nor Vary",
			`rule a"b: 2 stored responses of upstream slow`, "cache: {vary: [Accept-Encoding, Accept-Language]}"}},
		{"good upstreams", admin(cache), "0123456789abcdef", 0, []string{"each stored response came with"}},
		{"no cache", admin(), "0123456789abcdef", 0, []string{"no response cache"}},
		{"much memory", admin(cache, listeners), "0123456789abcdef", 0, []string{
			"connections take at most 2 GiB (proxy 2 GiB), and the process may take 3 GiB"}},
		{"a gateway is refused", admin(cache, gateways(2)), "0123456789abcdef", 1, []string{
			"the listener check refused gateways within the last minute (addresses: 2)", "check.token_file"}},
		{"gateways have their tokens", admin(cache, gateways(0)), "0123456789abcdef", 0, []string{
			"no gateway was refused within the last minute"}},
		{"another server", html, "", 1, []string{"is not from hotparam; is --admin right?"}},
		{"another token", admin(cache), "no", 1, []string{"401", "--token-file"}},
		{"not named", "", "", 0, []string{"not known, for topic"}},
	}
	doctors := make([]*running, len(cases))
	for i, tt := range cases {
		args := []string{"-c", caching}
		if tt.admin != "" {
			args = append(args, "--admin", tt.admin, "--token", tt.token)
		}
		doctors[i] = startDoctor(t, args...)
	}
	for i, tt := range cases {
		_, text, code := doctors[i].wait(t)
		if tt.code == 0 && losesNow(text) {
			code = 0
		}
		for _, says := range tt.says {
			if code != tt.code || !strings.Contains(text, says) {
				t.Errorf("%s: exit code %d, want %d and %q:\n%s", tt.name, code, tt.code, says, text)
			}
		}
	}
}

func TestDoctor_PrintsFindingsAsJSON(t *testing.T) {
	t.Parallel()
	report, text, code := startDoctor(t, "-o", "json", "-c",
		write(t, "rules: [{name: topic, params: [id], hot: {rate: 200}}]\n")).wait(t)
	if code != 0 && !losesNow(text) || len(report.Findings) < 2 || report.Findings[0].Level != doctor.Warn ||
		!strings.Contains(report.Findings[0].What, "has no limit") {
		t.Errorf("exit code %d, report %+v in %s", code, report, text)
	}
	if strings.Contains(text, "\x1b[") {
		t.Errorf("colours off a terminal: %q", text)
	}
}
