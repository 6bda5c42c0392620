package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// secret is part of every secret of these tests; nothing may ever show it.
const secret = "pw-s3cret-do-not-show"

// Every program is started at DEBUG with secrets wherever settings take one, from the
// file and in URLs. None is in its output, its metrics or its admin API.
func TestSecrets_AppearInNoOutput(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	// refused by a server without users: errors are logged too
	url := "redis://user:" + secret + "@" + redis.Addr() + "/0"
	file := pipelineRules + "redis: {addr: '" + url + "'}\nlog: {level: debug}\nadmin: {token: " + secret + "}\n" +
		"decide: {token: " + secret + "}\ngraphite: {username: ann, password: " + secret +
		", header: {Authorization: " + secret + "}}\n" +
		"kafka: {username: ann, password: " + secret + ", sasl: SCRAM-SHA-256, brokers: ['127.0.0.1:1']}\n"
	config := write(t, "hotparam.yaml", file)
	upstream := "http://ann:" + secret + "@127.0.0.1:1"
	for name, args := range map[string][]string{
		"collector":  {"--mirror.listen", freeport.Addr(t)},
		"aggregator": {"--graphite.url", "http://ann:" + secret + "@127.0.0.1:1"},
		"limiter-sidecar": {"--decide.listen", freeport.Addr(t), "--proxy.listen", freeport.Addr(t), "--proxy.upstream",
			upstream},
		"hotparam": {"serve", "--listen", freeport.Addr(t), "--upstream", upstream, "--state.dir", t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := freeport.Addr(t)
			p := launch(t, name, append(args, "--config", config, "--admin.listen", admin)...)
			ready(t, admin)
			token := http.Header{"Authorization": {"Bearer " + secret}}
			shown := ""
			for _, path := range []string{"/", "/metrics", "/v1/hot", "/v1/overrides", "/v1/audit", "/readyz?verbose",
				"/openapi.json"} {
				_, body := do(t, http.MethodGet, "http://"+admin+path, "", token)
				shown += body
			}
			for i, arg := range args {
				if arg == "--proxy.listen" || arg == "--listen" {
					_, body := get(t, "http://"+args[i+1]+"/topic?id=1") // the upstream is not there
					shown += body
				}
			}
			program.Await(t, time.Minute, "a line about what failed", func() bool {
				return strings.Contains(p.Said(), "level=WARN") || strings.Contains(p.Said(), "level=ERROR")
			})
			p.Stop()
			if shown += p.Said(); strings.Contains(shown, secret) {
				at := strings.Index(shown, secret)
				t.Errorf("%s shows a secret: …%s…", name, shown[max(0, at-200):at+len(secret)])
			}
		})
	}
}

// Errors about wrong settings name the setting and not the secret in it.
func TestSettingErrors_ShowNoSecret(t *testing.T) {
	t.Parallel()
	redis := "redis://user:" + secret + "@127.0.0.1:1"
	for _, args := range [][]string{
		{"limiter-sidecar", "--redis.addr", redis + "/x"},
		{"limiter-sidecar", "--redis.addr", redis + "," + redis},
		{"limiter-sidecar", "--redis.addr", "redis://user:a, b@" + secret + "@127.0.0.1:1/x"},
		{"limiter-sidecar", "--redis.addr", "http://user:" + secret + "@127.0.0.1"},
		{"aggregator", "--statsd.listen", "127.0.0.1:0", "--redis.addr", redis + "?x=y"},
		{"hotparam", "serve", "--upstream", "ftp://ann:" + secret + "@127.0.0.1:1"},
		{"hotparam", "serve", "--upstream", "http://ann:" + secret + "@127.0.0.1:1/?query"},
		{"hotparam", "serve", "--upstream", "http://127.0.0.1:1", "--admin.token", secret + " with a space"},
		{"aggregator", "--kafka.brokers", "127.0.0.1:1", "--kafka.username", "ann", "--kafka.password", secret,
			"--kafka.sasl", "x"},
		{"aggregator", "--statsd.listen", "127.0.0.1:0", "--graphite.url", "ann:" + secret + "@127.0.0.1:1"},
		{"hotparam", "doctor", "--redis.addr", "127.0.0.1:1", "--redis.username", "ann", "--redis.password", secret},
		{"hotparam", "doctor", "--redis.addr", "127.0.0.1:1", "--redis.sentinel_master", "m",
			"--redis.sentinel_password", secret},
		{"hotparam", "doctor", "--redis.addr", redis},
		{"hotparam", "doctor", "--redis.addr", redis + "/x"},
	} {
		p := launch(t, args[0], args[1:]...)
		if code := p.Wait(30 * time.Second); code == 0 || strings.Contains(p.Said(), secret) {
			t.Errorf("%v: exit %d, said:\n%s", args, code, p.Said())
		}
	}
}
