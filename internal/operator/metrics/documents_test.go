package metrics_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const root = "../../.."

var metric = regexp.MustCompile(`\bhotparam_\w+`)

// metricNames are the names in the list of all metrics.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	list, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"hotparam_info": true}
	for _, name := range metric.FindAllString(string(list), -1) {
		names[name] = true
	}
	return names
}

// A document may name a family of metrics by the beginning of their names, as in
// hotparam_graphite_*.
func TestDocumentsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	names := metricNames(t)
	ofHistogram := regexp.MustCompile(`_(bucket|sum|count)$`)
	exists := func(name string) bool {
		return names[name] || names[ofHistogram.ReplaceAllString(name, "")] ||
			strings.HasSuffix(name, "_") && slices.ContainsFunc(slices.Collect(maps.Keys(names)),
				func(n string) bool { return strings.HasPrefix(n, name) })
	}
	for _, dir := range []string{"README.md", "docs", "deploy", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) == ".png" {
				return err
			}
			text, err := os.ReadFile(path)
			for _, at := range metric.FindAllIndex(text, -1) {
				name := string(text[at[0]:at[1]])
				variable := at[0] > 0 && strings.ContainsRune("$@.", rune(text[at[0]-1])) // of nginx and its Lua
				if !variable && !exists(name) {
					t.Errorf("%s names %s, which no program has", path, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// docs/metrics.md explains the metrics that have no part in their name.
func TestDocumentsExplainTheOverview(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range groups()[0].lines(t) {
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("docs/metrics.md does not name %s", name)
		}
	}
}

// An alert on a metric that does not exist never fires.
func TestShippedAlertsAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile(root + "/deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	have, alerts := metricNames(t), map[string]bool{}
	for _, g := range doc.Groups {
		for _, r := range g.Rules {
			names := metric.FindAllString(r.Expr, -1)
			if len(names) == 0 || alerts[r.Alert] || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%q: no metric, no severity, no summary, or twice there", r.Alert)
			}
			alerts[r.Alert] = true
			for _, name := range names {
				if !have[name] {
					t.Errorf("%s asks for %s, which no program has", r.Alert, name)
				}
			}
		}
	}
	for _, want := range []string{"HotparamAggregatorStale", "HotparamAggregatorNoInput", "HotparamNoAggregator"} {
		if !alerts[want] {
			t.Errorf("no alert %s", want)
		}
	}
}
