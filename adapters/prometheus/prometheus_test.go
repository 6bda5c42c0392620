package hotparamprom_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/redis/go-redis/v9"

	hotparamprom "github.com/hotparam/pipeline/adapters/prometheus"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/shared"
)

// scrape returns the page of a registry with the metrics of p.
func scrape(t *testing.T, p *hotparam.Pipeline) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(hotparamprom.NewCollector(p))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			t.Fatal(err)
		}
	}
	return page.String()
}

func TestNewCollector_CollectsStatistics(t *testing.T) {
	t.Parallel()
	rules, err := hotparam.ParseRules("rules.yaml", []byte("overrides: [{key: \"topic?id=7\", action: block}]\n"+
		"rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 9}, limit: {rate: 1}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"7", "8", "8"} {
		r := hotparam.Request{Method: http.MethodGet, Target: "/topic?id=" + id}
		if _, err := p.Decide(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	page := scrape(t, p)
	for _, line := range []string{
		`hotparam_gate_denied_total{reason="blocked"} 1`, `hotparam_gate_allowed_total{reason="cold"} 2`,
		`hotparam_tally_added_total 3`, `hotparam_hotset_age_seconds -1`, `hotparam_cache_hits_total 0`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %s in\n%s", line, page)
		}
	}
}

// A pipeline with Redis and an aggregator also has the metrics of the store and of the sender. Neither can be reached
// here.
func TestNewCollector_CollectsSharedStatistics(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	p, err := hotparam.New(hotparam.Config{Shared: shared.Config{Redis: rdb, StatsD: "127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	page := scrape(t, p)
	for _, line := range []string{"hotparam_statsd_loss_ratio -1", "hotparam_gate_store_open 0",
		"hotparam_redis_hot_errors_total 0"} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %s in\n%s", line, page)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Run(ctx)
}

func ExampleNewCollector() {
	p, err := hotparam.New(hotparam.Config{})
	if err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(hotparamprom.NewCollector(p))
	families, err := registry.Gather()
	fmt.Println(len(families) > 50, err)
	// Output: true <nil>
}
