package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/guarded"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/logbound"
	"github.com/hotparam/pipeline/internal/operator/admin"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/operator/notify"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/serving/auth"
	"github.com/hotparam/pipeline/internal/serving/decisionapi"
	"github.com/hotparam/pipeline/internal/serving/edge"
	"github.com/hotparam/pipeline/internal/serving/envoy"
	"github.com/hotparam/pipeline/internal/serving/forwardauth"
	"github.com/hotparam/pipeline/internal/serving/held"
	"github.com/hotparam/pipeline/internal/serving/mirror"
	"github.com/hotparam/pipeline/internal/serving/proxy"
	"github.com/hotparam/pipeline/internal/serving/requestlog"
	"github.com/hotparam/pipeline/internal/serving/respcache"
	"github.com/hotparam/pipeline/internal/serving/spoe"
	"github.com/hotparam/pipeline/internal/storage/historystore"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/storage/redislimits"
	"github.com/hotparam/pipeline/internal/transport/graphite"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/transport/reversedns"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

var update = flag.Bool("update", false, "write testdata/metrics.txt and docs/metrics.md")

// groups are the parts of the programs.
func groups() []group {
	return []group{
		of[admin.Overview]("overview", "all"),
		of[admin.Hottest]("hot keys, with admin.metrics_key_labels", "all"),
		of[admin.Stats]("admin", "all"),
		of[metrics.ReloadStats]("config", "all"),
		of[metrics.RulesStats]("rules", "collector, aggregator, limiter-sidecar, serve"),
		of[metrics.ListenerStats]("listener", "all"),
		of[logbound.Stats]("log", "all"),
		of[historystore.Stats]("history", "aggregator, serve"),
		of[notify.Stats]("notify", "aggregator, serve"),
		of[gate.Stats]("gate", "limiter-sidecar, serve"),
		of[visitorpass.Stats]("passes", "limiter-sidecar, serve"),
		of[proxy.Stats]("proxy", "limiter-sidecar, serve"),
		of[respcache.Stats]("cache", "limiter-sidecar, serve"),
		of[[]respcache.SilentStats]("cache, by rule", "limiter-sidecar, serve"),
		of[decisionapi.Stats]("decision_api", "limiter-sidecar"),
		of[auth.GuardStats]("decision_api, callers", "limiter-sidecar", "hotparam_decision_api"),
		of[forwardauth.Stats]("check", "limiter-sidecar"),
		of[auth.GuardStats]("check, callers", "limiter-sidecar", "hotparam_check"),
		of[[]hottype.UpstreamLimit]("upstream", "aggregator, limiter-sidecar, serve"),
		of[reversedns.Stats]("crawlers", "limiter-sidecar, serve"),
		of[envoy.Stats]("envoy", "limiter-sidecar"),
		of[spoe.Stats]("spoe", "limiter-sidecar"),
		of[edge.Stats]("edge", "limiter-sidecar, serve"),
		of[held.Stats]("held", "limiter-sidecar, serve"),
		of[auth.GuardStats]("edge, callers", "limiter-sidecar, serve", "hotparam_edge"),
		of[metrics.SecretFileStats]("token_file", "all"),
		of[metrics.GatewayStats]("gateways", "limiter-sidecar, serve"),
		of[requestlog.DenialStats]("denials", "limiter-sidecar, serve"),
		of[redislimits.WindowsStats]("windows", "limiter-sidecar"),
		of[rediscontrol.Stats]("redis", "limiter-sidecar, aggregator"),
		of[redisclient.Stats]("redis_server", "limiter-sidecar, aggregator"),
		of[redislimits.Stats]("redis_limits", "limiter-sidecar"),
		of[redislimits.SettlementsStats]("redis_limits, settlements", "limiter-sidecar"),
		of[hotset.Stats]("hotset", "limiter-sidecar, aggregator, serve"),
		of[tally.Stats]("tally", "limiter-sidecar, collector, serve"),
		of[statsd.SenderStats]("statsd", "limiter-sidecar, collector"),
		of[kafka.ProducerStats]("kafka", "limiter-sidecar, collector"),
		of[statsd.ListenerStats]("statsd_in", "collector, aggregator"),
		of[mirror.Stats]("mirror", "collector"),
		of[metrics.AccessLogStats]("accesslog", "collector"),
		of[aggregate.Stats]("aggregate", "aggregator, serve"),
		of[kafka.ConsumerStats]("kafka_in", "aggregator"),
		of[graphite.Stats]("graphite", "aggregator"),
	}
}

type group struct {
	name, programs string
	stats          reflect.Value // that the part reads
	part           metrics.Collector
}

func of[S any](name, programs string, prefix ...string) group {
	stats := new(S)
	return group{name, programs, reflect.ValueOf(stats).Elem(), metrics.Of(func() S { return *stats }, prefix...)}
}

// The list holds the field of the statistics that each metric shows, so that the dashboards and alerts of users still
// work after an upgrade. The test is not parallel: with -update it writes the list that parallel tests read after it.
func TestMetricNames(t *testing.T) {
	var list strings.Builder
	list.WriteString("# What /metrics shows: name, labels, type, field. TestMetricNames -update writes it.\n")
	groupOf := map[string]string{}
	for _, g := range groups() {
		fmt.Fprintf(&list, "\n## %s, %s\n", g.name, g.programs)
		for _, line := range g.lines(t) {
			fmt.Fprintln(&list, line)
			name := line[:strings.IndexAny(line, "{ ")]
			if other, taken := groupOf[name]; taken && other != g.name { // a program that has both panics at its start
				t.Errorf("%s is a metric of %s and of %s", name, other, g.name)
			}
			groupOf[name] = g.name
		}
	}
	const file = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(file, []byte(list.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if list.String() != string(golden) {
		t.Errorf("the metrics are not those of %s; if that is meant, CHANGELOG names what breaks:\n%s", file,
			list.String())
	}
}

// lines changes one field of the statistics at a time and returns the metrics that change.
func (g group) lines(t *testing.T) (lines []string) {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(g.part)
	eachField(g.stats, "", func(path string, set, reset func()) {
		reset()
		before := gather(t, reg)
		set()
		after := gather(t, reg)
		reset()
		var changed []string
		for metric, value := range after {
			if before[metric] != value {
				changed = append(changed, metric+" "+path)
			}
		}
		if len(changed) != 1 {
			t.Errorf("%s: %s is shown by %d metrics: %v", g.name, path, len(changed), changed)
		}
		lines = append(lines, changed...)
	})
	slices.Sort(lines)
	return lines
}

// gather returns the values of each metric by its name, labels and type.
func gather(t *testing.T, from prometheus.Gatherer) map[string]string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	metrics := make(map[string]string, len(families))
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		name := f.GetName()
		if len(labels) > 0 {
			name += "{" + strings.Join(labels, ",") + "}"
		}
		metrics[name+" "+strings.ToLower(f.GetType().String())] = f.String()
	}
	return metrics
}

// eachField visits the numeric fields below v, with a function that makes a field non-zero and a function that undoes
// it. Texts are not metrics.
func eachField(v reflect.Value, path string, visit func(path string, set, reset func())) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		visit(path, func() { *x = time.Unix(1_700_000_000, 0) }, func() { *x = time.Time{} })
		return
	case *[]hottype.HotKey:
		visit(path+"[]", func() { *x = []hottype.HotKey{{Key: "topic?id=42", Rule: "topic", Rate: 300}} },
			func() { *x = nil })
		return
	case *[]respcache.SilentStats:
		visit(path+"[]", func() { *x = []respcache.SilentStats{{Rule: "topic", Stored: 2}} }, func() { *x = nil })
		return
	case *[]hottype.UpstreamLimit:
		one := hottype.UpstreamLimit{Name: "default"}
		store := func() { *x = []hottype.UpstreamLimit{one} }
		each := func(path string, set, reset func()) {
			visit(path, func() { set(); store() }, func() { reset(); store() })
		}
		eachField(reflect.ValueOf(&one).Elem(), path+"[]", each)
		each(path+"[].Reason", func() { one.Why = "errors" }, func() { one.Why = "" })
		return
	case *report.Admissions:
		for r := range x.All() {
			visit(path+"."+r.String(), func() { x[r] = 2 }, func() { x[r] = 0 })
		}
		return
	case *report.Denials:
		for r := range x.All() {
			visit(path+"."+r.String(), func() { x[r] = 2 }, func() { x[r] = 0 })
		}
		return
	case *[]notify.Kind:
		return
	case *guarded.Latency:
		for i := range x.Bounds {
			x.Bounds[i] = time.Duration(i+1) * time.Millisecond
		}
		visit(path, func() { x.Counts[0] = 1 }, func() { x.Counts[0] = 0 })
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachField(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), visit)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		eachField(v.Elem(), path, visit)
	case reflect.Map:
		one := reflect.New(v.Type().Elem()).Elem()
		store := func() {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("one"), one)
		}
		store()
		eachField(one, path+"[]", func(path string, set, reset func()) {
			visit(path, func() { set(); store() }, func() { reset(); store() })
		})
	case reflect.Slice:
		one := reflect.New(v.Type().Elem()).Elem()
		store := func() { v.Set(reflect.Append(reflect.MakeSlice(v.Type(), 0, 1), one)) }
		eachField(one, path+"[]", func(path string, set, reset func()) {
			visit(path, func() { set(); store() }, func() { reset(); store() })
		})
	case reflect.String:
	case reflect.Bool:
		visit(path, func() { v.SetBool(true) }, func() { v.SetBool(false) })
	case reflect.Float64:
		visit(path, func() { v.SetFloat(2) }, func() { v.SetFloat(0) })
	case reflect.Int, reflect.Int64:
		visit(path, func() { v.SetInt(2) }, func() { v.SetInt(0) })
	case reflect.Uint64:
		visit(path, func() { v.SetUint(2) }, func() { v.SetUint(0) })
	default:
		panic(fmt.Sprintf("%s is a %s: teach eachField", path, v.Kind()))
	}
}
