package metrics_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/guarded"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/serving/proxy"
	"github.com/hotparam/pipeline/internal/serving/respcache"
	"github.com/hotparam/pipeline/internal/transport/graphite"
)

// scrape returns the text of /metrics for these parts.
func scrape(t *testing.T, parts ...metrics.Collector) string {
	t.Helper()
	var log bytes.Buffer
	r := metrics.New("news", "1.2.3", slog.New(slog.NewTextHandler(&log, nil)), parts...)
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK || log.Len() > 0 {
		t.Fatalf("%d %s %s", rec.Code, rec.Body, &log)
	}
	return rec.Body.String()
}

func has(t *testing.T, got string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+got, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

func TestOf_SendsEachKindOfValue(t *testing.T) {
	t.Parallel()
	latency := guarded.Latency{Sum: time.Minute}
	latency.Bounds[0], latency.Bounds[1] = time.Millisecond, time.Second
	latency.Counts[0], latency.Counts[1], latency.Counts[7] = 1, 2, 3
	got := scrape(t,
		metrics.Of(func() gate.Stats {
			return gate.Stats{
				Allowed:     report.Admissions{hottype.ReasonCold: 7},
				WouldDenyBy: map[string]uint64{"*": 5, "ip_fixed": 6},
				Stats:       guarded.Stats{StoreOpen: true, StoreLatency: latency},
			}
		}),
		metrics.Of(func() respcache.Stats {
			return respcache.Stats{Bypassed: map[string]uint64{"cookie": 1}, NotStored: map[string]uint64{"vary": 1}}
		}),
		metrics.Of(func() proxy.Stats {
			return proxy.Stats{Upstreams: map[string]proxy.UpstreamStats{"slow": {Failures: 4, Failing: true}, "": {}}}
		}),
		metrics.Of(func() graphite.Stats {
			return graphite.Stats{Delay: 1500 * time.Millisecond, LastSuccess: time.Unix(1_700_000_000, 0)}
		}),
	)
	has(t, got,
		`hotparam_info{namespace="news",version="1.2.3"} 1`, "# TYPE hotparam_info gauge",
		`hotparam_gate_would_deny_by_rule_total{rule="*"} 5`, `hotparam_gate_would_deny_by_rule_total{rule="ip_fixed"} 6`,
		`hotparam_gate_allowed_total{reason="cold"} 7`, "# TYPE hotparam_gate_allowed_total counter",
		"# HELP hotparam_gate_allowed_total Requests that this limiter allowed, by reason.",
		"hotparam_gate_store_open 1", "# TYPE hotparam_gate_store_open gauge",
		`hotparam_gate_store_latency_seconds_bucket{le="0.001"} 1`,
		`hotparam_gate_store_latency_seconds_bucket{le="1"} 3`,
		`hotparam_gate_store_latency_seconds_bucket{le="+Inf"} 6`,
		"hotparam_gate_store_latency_seconds_sum 60", "hotparam_gate_store_latency_seconds_count 6",
		`hotparam_proxy_upstreams_failures_total{upstream="slow"} 4`,
		`hotparam_proxy_upstreams_failures_total{upstream=""} 0`,
		`hotparam_proxy_upstreams_failing{upstream="slow"} 1`, `hotparam_proxy_upstreams_failing{upstream=""} 0`,
		"hotparam_graphite_delay_seconds 1.5", "hotparam_graphite_last_success_timestamp_seconds 1.7e+09",
	)
	if !strings.Contains(got, "\ngo_goroutines ") {
		t.Error("no metrics of the Go runtime")
	}
}

func TestOf_LabelsTheOverviewByRule(t *testing.T) {
	t.Parallel()
	got := scrape(t, metrics.Of(func() admin.Overview {
		return admin.Overview{Rules: map[string]int{"topic": 1, "calm": 0, "slow": 2},
			HotRate: map[string]float64{"topic": 350, "calm": 0},
			HotCost: []admin.RuleCost{{Rule: "slow", Cost: hottype.CostTime, Rate: 1.5}}}
	}))
	has(t, got,
		`hotparam_namespace_rule_hot_keys{rule="topic"} 1`, `hotparam_namespace_rule_hot_rate{rule="topic"} 350`,
		`hotparam_namespace_rule_hot_keys{rule="calm"} 0`, `hotparam_namespace_rule_hot_keys{rule="slow"} 2`,
		`hotparam_namespace_rule_hot_cost{cost="time",rule="slow"} 1.5`,
	)
	if strings.Contains(got, `hot_rate{rule="slow"`) {
		t.Error("seconds are shown as requests per second")
	}
}

// Clients choose the keys, which may hold any bytes and be long.
func TestOf_EscapesHostileKeysInLabels(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("x", 300)
	hot := []hottype.HotKey{
		{Key: "/<script>alert(1)</script>/\u202egnp.exe\n\xff", Rule: "*", Rate: 500},
		{Key: hottype.Key(long + "1"), Rule: "*", Rate: 400}, {Key: hottype.Key(long + "2"), Rule: "*", Rate: 390},
		{Key: `/a"b\c`, Rule: "*", Rate: 380}, {Key: "topic?id=42", Rule: "topic", Rate: 350},
		{Key: "topic?id=42", Rule: "other", Rate: 350},
	}
	got := scrape(t, metrics.Of(func() []hottype.HotKey { return hot }))
	has(t, got,
		`hotparam_hot_key_rate{key="/<script>alert(1)</script>/%E2%80%AEgnp.exe%0A%FF",rule="*"} 500`,
		`hotparam_hot_key_rate{key="/a\"b\\c",rule="*"} 380`,
		`hotparam_hot_key_rate{key="topic?id=42",rule="other"} 350`,
	)
	if n := strings.Count(got, "\nhotparam_hot_key_rate{"); n != len(hot) {
		t.Errorf("%d keys have a metric", n)
	}
	if strings.Contains(got, strings.Repeat("x", 200)) || strings.Count(got, "/xxx") != 2 {
		t.Error("long keys are not cut apart")
	}
}
