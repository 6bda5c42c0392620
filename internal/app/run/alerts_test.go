package run

import (
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisfeed"
	"github.com/hotparam/pipeline/internal/transport/graphite"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// metricNamesOf are the metrics that programs have whose parts have these stats.
func metricNamesOf(t *testing.T, stats map[string]func() any) map[string]bool {
	t.Helper()
	s, err := admin.New(admin.Config{Hot: func() []hottype.Hot { return nil }, Rules: rules.Default, Stats: stats, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	rec, req := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
	req.Host = "localhost"
	s.Handler().ServeHTTP(rec, req)
	names := map[string]bool{}
	for line := range strings.Lines(rec.Body.String()) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names[strings.Fields(name)[0]] = true
		}
	}
	return names
}

// A rule that asks for a metric that nobody has never fires.
func TestShippedAlertsAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile("../../../deploy/prometheus/alerts.yml")
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
	have := metricNamesOf(t, map[string]func() any{
		"aggregate": func() any { return aggregate.Stats{} },
		"gate":      func() any { return gate.Stats{} },
		"graphite":  func() any { return graphite.Stats{} },
		"hotset":    func() any { return hotset.Stats{} },
		"kafka":     func() any { return kafka.ConsumerStats{} },
		"config":    func() any { return ReloadStats{} },
		"redis":     func() any { return redisfeed.Stats{} },
		"statsd_in": func() any { return statsd.ListenerStats{} },
		"tally":     func() any { return tally.Stats{} },
	})
	metric, alerts := regexp.MustCompile(`hotparam_\w+`), map[string]bool{}
	for _, g := range doc.Groups {
		for _, r := range g.Rules {
			names := metric.FindAllString(r.Expr, -1)
			if len(names) == 0 || alerts[r.Alert] || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%q: no metric, no severity, no summary, or twice there", r.Alert)
			}
			alerts[r.Alert] = true
			for _, name := range names {
				if !have[name] {
					t.Errorf("%s asks for %s, which nobody has", r.Alert, name)
				}
			}
		}
	}
	for _, want := range []string{"HotparamAggregatorSilent", "HotparamAggregatorBlind", "HotparamNoAggregator"} {
		if !alerts[want] {
			t.Errorf("no alert %s", want)
		}
	}
}
