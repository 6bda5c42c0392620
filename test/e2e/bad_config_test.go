package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// Wrong input is rejected with an error that names the fault, its place and the remedy.
func TestPrograms_RejectWrongConfigurations(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // after the parallel subtests
	rule :=
		"rules:\n  - name: topic\n    match: {path: /topic}\n    params: [id]\n    hot: {rate: 200, window: %s}\n    limit: {rate: 100, burst: 200}\n"
	good := write(t, "good.yaml", fmt.Sprintf(rule, "5s"))
	tests := []struct {
		name string
		args []string
		file string // text of --config, or "" to omit it
		exit int
		want []string
	}{
		{"unknown field", []string{"serve", "--upstream", "http://127.0.0.1:1"},
			strings.Replace(fmt.Sprintf(rule, "5s"), "params:", "parms:", 1), 2,
			[]string{"wrong.yaml:4", "parms", "params"}},
		{"bad duration", []string{"serve", "--upstream", "http://127.0.0.1:1"}, fmt.Sprintf(rule, "5 apples"), 2,
			[]string{"wrong.yaml:5", "window"}},
		{"duplicate rule", []string{"serve", "--upstream", "http://127.0.0.1:1"},
			fmt.Sprintf(rule, "5s") + strings.TrimPrefix(fmt.Sprintf(rule, "5s"), "rules:\n"), 2,
			[]string{"wrong.yaml:7", "topic"}},
		{"no YAML at all", []string{"serve", "--upstream", "http://127.0.0.1:1"}, "rules: [", 2,
			[]string{"wrong.yaml"}},
		{"empty file", []string{"serve", "--upstream", "http://127.0.0.1:1"}, "\n", 2,
			[]string{"wrong.yaml", "is empty", "write at least one rule"}},
		{"no rules", []string{"serve", "--upstream", "http://127.0.0.1:1"}, "namespace: e2e\n", 2,
			[]string{"wrong.yaml", "has no rules"}},
		{"unknown setting", []string{"serve", "--upstream", "http://127.0.0.1:1"}, "redis:\n  adr: x\n", 2,
			[]string{"wrong.yaml:2", "redis.adr", "addr"}},
		{"bad setting", []string{"serve", "--upstream", "http://127.0.0.1:1"}, "tally:\n  flush: soon\n", 2,
			[]string{"wrong.yaml:2", "tally.flush", "soon"}},
		{"port taken", []string{"serve", "--upstream", "http://127.0.0.1:1", "--admin.listen=", "--listen",
			taken.Addr().String()}, "", 1, []string{"address already in use", "--proxy.listen"}},
		{"no upstream", []string{"serve"}, "", 2, []string{"--upstream", "--check.listen"}},
		{"limits that are not shared",
			[]string{"serve", "--upstream", "http://127.0.0.1:1", "--redis.addr", "127.0.0.1:1"}, "", 2,
			[]string{"shares no limits", "limiter-sidecar"}},
		{"nothing to learn from", []string{"serve", "--check.listen", "127.0.0.1:0", "--learn", "1m"}, "", 2,
			[]string{"set --upstream"}},
		{"upstream without scheme", []string{"serve", "--upstream", "localhost:3000"}, "", 2,
			[]string{"localhost:3000", "http://"}},
		{"admin open to the network", []string{"serve", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0",
			"--admin.listen", "0.0.0.0:0"}, "", 2, []string{"token", "--admin.token"}},
		{"short token", []string{"serve", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0",
			"--admin.token", "compose"}, "", 2,
			[]string{"--admin.token: the token has 7 characters, it must have at least 16"}},
		{"certificate without a key", []string{"serve", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0",
			"--admin.listen=", "--proxy.tls_cert", "x.pem"}, "", 2, []string{"--proxy.tls_cert and --proxy.tls_key"}},
		{"cache larger than memory", []string{"serve", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0",
			"--proxy.cache_memory", "9000000000000000000"}, "", 2,
			[]string{"--proxy.cache_memory 9000000000000000000 is more than the"}},
		{"unknown flag", []string{"serve", "--upstraem", "x"}, "", 2, []string{"upstraem"}},
		{"missing log", []string{"replay", "no-such-file.log"}, "", 1, []string{"no-such-file.log"}},
		{"several errors at once", []string{"config", "validate", good, "WRONG"},
			"namespace: '#'\nrules:\n  - {name: A!, hot: {rate: -1}}\n", 2, []string{"wrong.yaml:1", "wrong.yaml:3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := tt.args
			if tt.file != "" {
				path := write(t, "wrong.yaml", tt.file)
				if args[len(args)-1] == "WRONG" {
					args = append(args[:len(args)-1:len(args)-1], path)
				} else {
					args = append(args[:len(args):len(args)], "--config", path)
				}
			}
			p := launch(t, "hotparam", args...)
			if code := p.Wait(time.Minute); code != tt.exit {
				t.Errorf("exit code %d, want %d", code, tt.exit)
			}
			for _, want := range tt.want {
				if !strings.Contains(p.Said(), want) {
					t.Errorf("the error does not say %q:\n%s", want, p.Said())
				}
			}
		})
	}
}

// Clients on other machines get no verdicts without a token.
func TestDecisions_NeedTokenOffLoopback(t *testing.T) {
	t.Parallel()
	base := []string{"--redis.addr", "127.0.0.1:1", "--admin.listen=", "--decide.listen", "0.0.0.0:0"}
	for says, args := range map[string][]string{
		"--decide.token, --decide.token_file or --decide.tls_client_ca": nil,
		"must have at least 16":              {"--decide.token", "short"},
		"no-such-file":                       {"--decide.token_file", "no-such-file"},
		"--decide.tls_cert and --decide.tls": {"--decide.tls_client_ca", "no-such-file"},
		"--check.token, --check.token_file": {"--decide.listen=", "--check.dialect", "path", "--check.listen",
			"0.0.0.0:0"},
		"set --check.dialect to one of nginx": {"--decide.listen=", "--check.listen", "127.0.0.1:0"},
		"--envoy.token, --envoy.token_file":   {"--decide.listen=", "--envoy.listen", "0.0.0.0:0"},
		"has no token: ask for its certific":  {"--decide.listen=", "--spoe.listen", "0.0.0.0:0"},
		"absent.yaml: no such file": {"--decide.listen=", "--envoy.listen", "127.0.0.1:0", "--envoy.limits",
			"absent.yaml"},
	} {
		p := launch(t, "limiter-sidecar", append(base, args...)...)
		if code := p.Wait(time.Minute); code != 2 || !strings.Contains(p.Said(), says) {
			t.Errorf("%v: exit %d, want 2 and %q in:\n%s", args, code, says, p.Said())
		}
	}
}

// Programs that lack a required setting name it in their error.
func TestPrograms_NameMissingSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ program, want string }{
		{"collector", "--kafka.brokers"},
		{"aggregator", "--statsd.listen"},
		{"limiter-sidecar", "--redis.addr"},
	} {
		p := launch(t, tt.program)
		if code := p.Wait(time.Minute); code != 2 || !strings.Contains(p.Said(), tt.want) {
			t.Errorf("%s without settings: exit %d, want 2 and %s in:\n%s", tt.program, code, tt.want, p.Said())
		}
		for arg, want := range map[string]string{
			"--help": "HOTPARAM_ADMIN_LISTEN", "--help-all": "--admin.header_timeout", // how variables are named; every setting
		} {
			help := launch(t, tt.program, arg)
			if code := help.Wait(time.Minute); code != 0 || !strings.Contains(help.Said(), want) {
				t.Errorf("%s %s: exit %d; want %s in:\n%s", tt.program, arg, code, want, help.Said())
			}
		}
	}
}

// A sidecar and an aggregator start without Redis, log that it is missing, answer by the failure policy, and use Redis
// once it is there.
func TestPrograms_StartWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	redis.Stop()
	config := write(t, "hotparam.yaml", pipelineRules)
	decide, admin := freeport.Addr(t), freeport.Addr(t)
	p := launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis.Addr(), "--decide.listen", decide,
		"--admin.listen", admin)
	ready(t, admin)
	program.Await(t, time.Minute, "a warning", func() bool {
		return strings.Contains(p.Said(), "Redis does not answer")
	})
	ask := func() string {
		_, body := do(t, http.MethodPost, "http://"+decide+"/v1/decide",
			`{"method":"GET","uri":"/topic?id=1","ip":"192.0.2.1"}`, http.Header{"Content-Type": {"application/json"}})
		return body
	}
	if body := ask(); !strings.Contains(body, `"allowed":true`) {
		t.Errorf("without Redis: %s", body)
	}
	redis.Restart()
	rdb := redis.Client()
	program.Await(t, time.Minute, "a report in Redis", func() bool {
		keys, err := rdb.Keys(t.Context(), "hp:{e2e}:report:*").Result()
		return err == nil && len(keys) > 0
	})
	if body := ask(); !strings.Contains(body, `"allowed":true`) {
		t.Errorf("with Redis again: %s", body)
	}
}

// serve in front of a service: hostile requests, an absent upstream, broken
// logs and datagrams.
func TestServe_SurvivesHostileInput(t *testing.T) {
	t.Parallel()
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	down := freeport.Addr(t)
	launch(t, "hotparam", "serve", "--upstream", "http://"+down, "--listen", addr, "--admin.listen", admin,
		"--state.dir", t.TempDir())
	ready(t, admin)
	status, body := get(t, "http://"+addr+"/topic?id=1")
	if status != http.StatusBadGateway || strings.Contains(body, down) {
		t.Errorf("upstream down: %d %s; want 502 without its address", status, body)
	}
	status, _ = get(t, "http://"+addr+"/topic?id="+strings.Repeat("x", 1<<20))
	if status != http.StatusRequestHeaderFieldsTooLarge && status != http.StatusRequestURITooLong {
		t.Errorf("1 MB URL: %d, want 431 or 414", status)
	}
	pairs := "/topic?" + strings.Repeat("a=1&", 10_000) + "a=1"
	if status, _ = get(t, "http://"+addr+pairs); status != http.StatusBadGateway {
		t.Errorf("10,001 pairs: %d, want it to reach the upstream (502)", status)
	}
	p := launch(t, "hotparam", "explain", "-o", "json", pairs)
	if p.Wait(10*time.Second) != 0 || !strings.Contains(p.Said(), `"key": "/topic?!malformed"`) {
		t.Errorf("10,001 pairs are not counted as malformed: %s", p.Said())
	}
}

func TestAggregator_CountsGarbageLines(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	statsd, admin := freeport.Addr(t), freeport.Addr(t)
	launch(t, "aggregator", "--redis.addr", redis.Addr(), "--statsd.listen", statsd, "--admin.listen", admin)
	ready(t, admin)
	conn, err := net.Dial("udp", statsd)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, packet := range []string{"\x00\xff garbage", "hotparam.topic.hot_param.id=1:NaN|c",
		"a.b.c:1|c\nhotparam.topic.hot_param.id=42:3|c"} {
		if _, err := conn.Write([]byte(packet)); err != nil {
			t.Fatal(err)
		}
	}
	program.Await(t, time.Minute, "malformed and foreign lines in the metrics", func() bool {
		_, metrics := get(t, "http://"+admin+"/metrics")
		return strings.Contains(metrics, "hotparam_statsd_in_malformed_total 2") &&
			strings.Contains(metrics, "hotparam_statsd_in_foreign_total 1")
	})
}

// Broken log lines are counted and shown, never fatal.
func TestReplay_CountsBrokenLines(t *testing.T) {
	t.Parallel()
	log := write(t, "access.log", `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /topic?id=1 HTTP/1.1" 200 1 "-" "-"
this is no log line
192.0.2.1 - - [17/May/2015:10:05:04 +0000] "GET /topic?id=2 HTTP/1.1" 200 1 "-" "-"
`)
	for output, says := range map[string]string{"text": "this is no log line", "json": `"malformed": 1,`} {
		p := launch(t, "hotparam", "replay", "--format", "combined", "-o", output, log)
		if code := p.Wait(time.Minute); code != 0 || !strings.Contains(p.Said(), says) {
			t.Errorf("exit %d, want 0 and %q:\n%s", code, says, p.Said())
		}
	}
}
