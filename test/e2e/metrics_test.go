package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const prometheusFiles, dashboard = "../../deploy/prometheus", "../../deploy/grafana/hotparam.json"

// promtool gives Prometheus' tool for those who write metrics, rules and queries.
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

func TestShippedAlertsFire(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", filepath.Join(prometheusFiles, "alerts.yml"))
	promtool(t, "", "test", "rules", filepath.Join(prometheusFiles, "alerts_test.yml"))
	alerts, tests := read(t, filepath.Join(prometheusFiles, "alerts.yml")), read(t, filepath.Join(prometheusFiles, "alerts_test.yml"))
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(alerts, -1) {
		if !strings.Contains(tests, "{alertname: "+m[1]+", eval_time") || !strings.Contains(tests, "- alertname: "+m[1]+"\n") {
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

// queries are those of the dashboard, with a value for each of its variables.
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

func TestDashboardQueriesAreValid(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for i, q := range queries(t) {
		fmt.Fprintf(&rules, "      - {record: 'query:%d', expr: '%s'}\n", i, strings.ReplaceAll(q, "'", "''"))
	}
	promtool(t, "", "check", "rules", write(t, "dashboard.yml", rules.String()))
}
