package admin

import (
	"reflect"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Gather makes metrics of a Stats function: at each scrape it is called once,
// and each field of the struct that it returns becomes hotparam_<room>_<field>.
//
//	uint64 and other unsigned   counter, with the suffix _total
//	int64, float64, bool, …     gauge
//	time.Duration, time.Time    gauge in seconds, with the suffix _seconds
//	struct                      its fields, after the field's name
//	map[string]struct           the same, with the key as the label "name"
//	struct{Bounds, Counts, Sum} histogram: Counts[i] values were at most
//	                            Bounds[i] and above the bound before it, the
//	                            last count is of the rest, Sum is of all
//
// A pointer counts as what it points to, a nil one as nothing; other kinds are
// left out. The tag `metric` changes a field: "-" leaves it out, "gauge" makes
// an unsigned one a gauge, and anything else is its name. The tag `help` is its
// help text. Maps are for names from a configuration: of more than 100 keys the
// first 100 are shown.
func Gather(room string, stats func() any) prometheus.Collector {
	return &gatherer{prefix: "hotparam_" + snake(room), room: room, stats: stats}
}

// maxNames bounds the label "name".
const maxNames = 100

// gatherer is an unchecked collector: which fields there are shows when stats
// is called.
type gatherer struct {
	prefix, room string
	stats        func() any
}

// Describe sends nothing, which makes the collector an unchecked one.
func (g *gatherer) Describe(chan<- *prometheus.Desc) {}

// Collect reads the stats once and sends their fields.
func (g *gatherer) Collect(out chan<- prometheus.Metric) {
	sink{room: g.room, out: out}.fields(g.prefix, pointed(reflect.ValueOf(g.stats())))
}

// sink takes the metrics of one scrape. Label is nil outside maps.
type sink struct {
	room  string
	label prometheus.Labels
	out   chan<- prometheus.Metric
}

func (s sink) fields(prefix string, v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag := f.Tag.Get("metric")
		if !f.IsExported() || tag == "-" {
			continue
		}
		name := prefix
		switch {
		case tag != "" && tag != "gauge":
			name += "_" + tag
		case !f.Anonymous:
			name += "_" + snake(f.Name)
		}
		s.field(name, f, pointed(v.Field(i)))
	}
}

func (s sink) field(name string, f reflect.StructField, v reflect.Value) {
	help := f.Tag.Get("help")
	if help == "" {
		help = f.Name + " of " + s.room + "."
	}
	if h, ok := histogramOf(v); ok {
		if len(h.buckets) == 0 {
			return
		}
		desc := prometheus.NewDesc(suffixed(name, "_seconds"), help, nil, s.label)
		s.out <- prometheus.MustNewConstHistogram(desc, h.count, h.sum, h.buckets)
		return
	}
	n, ok := valueOf(v)
	switch {
	case ok:
		s.value(name, help, f, n)
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String && s.label == nil:
		s.names(name, v)
	default:
		s.fields(name, v)
	}
}

func (s sink) value(name, help string, f reflect.StructField, n number64) {
	kind := prometheus.GaugeValue
	switch {
	case n.seconds:
		name = suffixed(name, "_seconds")
	case n.unsigned && f.Tag.Get("metric") != "gauge":
		kind, name = prometheus.CounterValue, suffixed(name, "_total")
	}
	s.out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, s.label), kind, n.value)
}

func (s sink) names(name string, m reflect.Value) {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys[:min(len(keys), maxNames)] {
		s.label = prometheus.Labels{"name": labelOf(k.String())}
		s.fields(name, pointed(m.MapIndex(k)))
	}
}
