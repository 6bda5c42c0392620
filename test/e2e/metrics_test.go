package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

const prometheusFiles, dashboard = "../../deploy/prometheus", "../../deploy/grafana/hotparam.json"

// promtool runs Prometheus' tool that checks metrics, rules and queries.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("HOTPARAM_REQUIRE_SERVERS") != "1" {
		t.Skip("no promtool in PATH")
	}
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestShippedAlerts_PassTheirTests(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", filepath.Join(prometheusFiles, "alerts.yml"))
	promtool(t, "", "test", "rules", filepath.Join(prometheusFiles, "alerts_test.yml"))
	alerts, tests := read(t, filepath.Join(prometheusFiles, "alerts.yml")),
		read(t, filepath.Join(prometheusFiles, "alerts_test.yml"))
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(alerts, -1) {
		if !strings.Contains(tests, "{alertname: "+m[1]+", eval_time") ||
			!strings.Contains(tests, "- alertname: "+m[1]+"\n") {
			t.Errorf("alerts_test.yml does not see that %s is silent and that it fires", m[1])
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// queries returns the queries of the dashboard, with a value for each of its variables.
func queries(t *testing.T) (out []string) {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboard)), &board); err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			out = append(out, values.Replace(target.Expr))
		}
	}
	if len(out) < 20 {
		t.Fatalf("the dashboard has %d queries", len(out))
	}
	return out
}

func TestDashboard_QueriesAreValid(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for i, q := range queries(t) {
		fmt.Fprintf(&rules, "      - {record: 'query:%d', expr: '%s'}\n", i, strings.ReplaceAll(q, "'", "''"))
	}
	promtool(t, "", "check", "rules", write(t, "dashboard.yml", rules.String()))
}

// measuredRules have a limit that follows its upstream, so that there is everything to measure.
const measuredRules = `
namespace: e2e
upstreams:
  - {name: default, url: "%[1]s", target: {latency: 250ms}}
notifications:
  webhooks:
    - {name: ops, url: "%[1]s"}
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10, window: 1s}, limit: {adaptive: true, min: 5, max: 1000}}
`

// The metrics that alerts and dashboard query exist in the programs as they run, and have names that promtool accepts.
func TestShippedQueries_FindMetrics(t *testing.T) {
	t.Parallel()
	programs, page := startMeasured(t)
	scrapes := func() string {
		var all strings.Builder
		for _, admin := range programs {
			_, text := get(t, "http://"+admin+"/metrics")
			all.WriteString(text)
		}
		return all.String()
	}
	program.Await(t, time.Minute, "an adaptive limit to be judged", func() bool {
		for range 50 {
			get(t, page)
		}
		return strings.Contains(scrapes(), "\nhotparam_upstream_unreachable{")
	})
	all := scrapes()
	asked := strings.Join(queries(t), "\n") + read(t, filepath.Join(prometheusFiles, "alerts.yml"))
	names := regexp.MustCompile(`\b(hotparam|process)_\w+`).FindAllString(asked, -1)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !strings.Contains(all, "\n"+name+" ") && !strings.Contains(all, "\n"+name+"{") {
			t.Errorf("no program has %s, which is asked for", name)
		}
	}
	for _, admin := range programs {
		_, text := get(t, "http://"+admin+"/metrics")
		var ours strings.Builder
		for line := range strings.Lines(text) {
			if strings.Contains(line, "hotparam_") { // libraries have other metrics
				ours.WriteString(line)
			}
		}
		promtool(t, ours.String(), "check", "metrics")
	}
}

// startMeasured starts each program with all of its features, and returns their admin listeners and the address of a
// page that is measured.
func startMeasured(t *testing.T) (programs []string, page string) {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	broker, redis := cluster.ListenAddrs()[0], redistest.Start(t).Addr()
	config := write(t, "hotparam.yaml", fmt.Sprintf(measuredRules, upstream.URL))
	cert := redistest.NewAuthority(t).Issue(time.Now().Add(time.Hour), "127.0.0.1")
	start := func(name string, args ...string) {
		admin := freeport.Addr(t)
		if name == "serve" {
			name, args = "hotparam", append([]string{"serve"}, args...)
		}
		launch(t, name, append(args, "--config", config, "--admin.listen", admin, "--state.dir", t.TempDir())...)
		programs = append(programs, admin)
	}
	start("collector", "--statsd.listen", freeport.Addr(t), "--statsd.addr", freeport.Addr(t), "--kafka.brokers",
		broker,
		"--collector.out", "both", "--mirror.listen", freeport.Addr(t), "--rules", "redis:", "--redis.addr", redis)
	start("aggregator", "--kafka.brokers", broker, "--statsd.listen", freeport.Addr(t), "--redis.addr", redis)
	tls := []string{"--decide.tls_cert", cert.Cert, "--decide.tls_key", cert.Key}
	start("limiter-sidecar", append(tls, "--redis.addr", redis, "--decide.listen", freeport.Addr(t), "--kafka.brokers",
		broker,
		"--proxy.listen", freeport.Addr(t), "--proxy.upstream", upstream.URL,
		"--check.listen", freeport.Addr(t), "--check.dialect", "nginx",
		"--check.token_file", write(t, "token", "0123456789abcdef"),
		"--envoy.listen", freeport.Addr(t), "--spoe.listen", freeport.Addr(t), "--gate.budget", budget)...)
	proxy := freeport.Addr(t)
	start("serve", "--listen", proxy, "--upstream", upstream.URL, "--denials.log",
		filepath.Join(t.TempDir(), "denials"))
	for _, admin := range programs {
		ready(t, admin)
	}
	return programs, "http://" + proxy + "/topic?id=42"
}
