package metrics_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/hotparam/pipeline/internal/operator/metrics"
)

// fill sets every field of the statistics, so that every metric is there.
func (g group) fill() metrics.Collector {
	eachField(g.stats, "", func(_ string, set, _ func()) { set() })
	return g.part
}

// Names follow the conventions of Prometheus, which promtool check metrics checks, and two further ones.
func TestMetricNames_FollowTheConventions(t *testing.T) {
	t.Parallel()
	var parts []metrics.Collector
	for _, g := range groups() {
		parts = append(parts, g.fill())
	}
	text := scrape(t, parts...)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "hotparam_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "hotparam_") && strings.Contains(line, `{name="`) {
			t.Errorf("a label says what it names: %s", line)
		}
		name, help, _ := strings.Cut(strings.TrimPrefix(line, "# HELP "), " ")
		if strings.Contains(help, "unix seconds") && !strings.HasSuffix(name, "_timestamp_seconds") {
			t.Errorf("%s is a time: its name ends in _timestamp_seconds", name)
		}
	}
}

// generatedBelow ends the part of docs/metrics.md that people write.
const generatedBelow = "<!-- go test ./internal/operator/metrics -update writes what follows -->\n"

func TestReferenceIsUpToDate(t *testing.T) {
	t.Parallel()
	const file = root + "/docs/metrics.md"
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(have), generatedBelow)
	if !ok {
		t.Fatalf("%s has no line %s", file, generatedBelow)
	}
	var b strings.Builder
	b.WriteString(head + generatedBelow)
	for _, g := range groups() {
		fmt.Fprintf(&b, "\n## %s\n\nIn: %s.\n\n| metric | type | labels | |\n|---|---|---|---|\n", g.name, g.programs)
		reg := prometheus.NewRegistry()
		reg.MustRegister(g.fill())
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			values, labels := map[string][]string{}, []string{}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					values[l.GetName()] = append(values[l.GetName()], l.GetValue())
				}
			}
			for _, l := range f.GetMetric()[0].GetLabel() {
				label := "`" + l.GetName() + "`"
				if all := values[l.GetName()]; len(all) > 1 { // a list in the code
					slices.Sort(all)
					label += ": " + strings.Join(all, ", ")
				}
				labels = append(labels, label)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()),
				strings.Join(labels, ", "), strings.ReplaceAll(f.GetHelp(), "|", `\|`))
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(have) != b.String() {
		t.Errorf("%s is not what the code says: go test ./internal/operator/metrics -update", file)
	}
}
