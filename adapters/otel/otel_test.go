package hotparamotel_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	hotparamotel "github.com/hotparam/pipeline/adapters/otel"
	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
)

// collect returns each value by the name of its metric and the values of its attributes.
func collect(t *testing.T, reader *metric.ManualReader) map[string]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Unit == "" || m.Description == "" {
				t.Errorf("%s has no unit or no description", m.Name)
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				if !d.IsMonotonic {
					t.Errorf("%s is no counter", m.Name)
				}
				add(got, m.Name, d.DataPoints)
			case metricdata.Gauge[int64]:
				add(got, m.Name, d.DataPoints)
			case metricdata.Gauge[float64]:
				add(got, m.Name, d.DataPoints)
			}
		}
	}
	return got
}

func add[N int64 | float64](to map[string]float64, name string, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		id := []string{name}
		for _, a := range p.Attributes.ToSlice() {
			id = append(id, a.Value.AsString())
		}
		to[strings.Join(id, " ")] = float64(p.Value)
	}
}

func TestRegister_ObservesStatistics(t *testing.T) {
	t.Parallel()
	stats := hotparam.Stats{
		Counted: 10, Delivered: 9, Dropped: 1, Allowed: 7, Panics: 2, Denied: 3,
		DeniedBy: map[hottype.Reason]uint64{hottype.ReasonHot: 3, hottype.ReasonBlocked: 0},
		Cache:    hotparam.CacheStats{Hits: 4, Stale: 5, Fetched: 6, Bytes: 1000},
		Hot: []hotparam.HotKey{{Key: "topic?id=42", Rule: "topic", Rate: 300},
			{Key: "topic?id=7", Rule: "topic", Rate: 200},
			{Key: "slow?id=1", Rule: "slow", Cost: hottype.CostTime, Rate: 1.5},
			{Key: "slow?id=2", Rule: "slow", Cost: hottype.CostTime, Rate: 0.5}},
		Upstreams: []hottype.UpstreamLimit{{Name: "default", Rate: 150, Unreachable: true}},
		WouldDeny: 20, WouldDenyIP: 13, WouldDenyBy: map[string]uint64{"topic": 7, "ip_fixed": 13},
		Health: hotparam.Health{Running: true, HotSetAge: 1500 * time.Millisecond, Publishers: 3, NoInputPublishers: 2,
			StalePublishers: 1, CountsDown: true, CountsLost: 0.25, StoreErrors: 14, StoreOpen: true},
	}
	reader := metric.NewManualReader()
	registration, err := hotparamotel.Register(metric.NewMeterProvider(metric.WithReader(reader)).Meter("test"),
		func() hotparam.Stats { return stats })
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"hotparam.counted": 10, "hotparam.delivered": 9, "hotparam.dropped": 1, "hotparam.allowed": 7,
		"hotparam.would_deny topic": 7, "hotparam.would_deny ip_fixed": 13, "hotparam.would_deny_ip": 13,
		"hotparam.store.errors": 14, "hotparam.running": 1, "hotparam.hotset.age": 1.5, "hotparam.publishers": 3,
		"hotparam.publishers.no_input": 2,
		"hotparam.publishers.stale":    1, "hotparam.counts.down": 1, "hotparam.counts.lost": 0.25,
		"hotparam.store.open": 1, "hotparam.panics": 2,
		"hotparam.cache.hits": 4, "hotparam.cache.stale": 5, "hotparam.cache.fetches": 6, "hotparam.cache.size": 1000,
		"hotparam.hot.keys topic": 2, "hotparam.hot.rate topic": 500,
		"hotparam.hot.keys slow": 2, "hotparam.hot.cost time slow": 2,
		"hotparam.upstream.rate default": 150, "hotparam.upstream.unreachable default": 1, "hotparam.denied hot": 3,
		"hotparam.denied blocked": 0,
	}
	if got := collect(t, reader); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	stats.Allowed, stats.Hot = 8, nil
	if got := collect(t, reader); got["hotparam.allowed"] != 8 || got["hotparam.hot.keys topic"] != 0 {
		t.Errorf("what changed is not told: %v", got)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, reader); len(got) != 0 {
		t.Errorf("told after the end: %v", got)
	}
}

func TestRegister_NeedsAMeterAndStatistics(t *testing.T) {
	t.Parallel()
	if _, err := hotparamotel.Register(nil, func() hotparam.Stats { return hotparam.Stats{} }); err == nil {
		t.Error("a nil meter is taken")
	}
	if _, err := hotparamotel.Register(metric.NewMeterProvider().Meter("test"), nil); err == nil {
		t.Error("nil statistics are taken, and the first collection panics")
	}
}
