package metrics

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/guarded"
)

// Of returns a collector of the metrics that the tags of S declare, with a prefix if one is passed. It panics if a tag
// is wrong. The tags of a field:
//
//   - metric is the name. A name that ends in _total is a counter, every other name a gauge. Times are unix
//     seconds, durations seconds, a bool is 1 or 0, and a string is a label of a metric that is 1.
//   - help is read without its neighbours: on a dashboard it is alone.
//   - label names the keys of a map; without metric, a string field is a label of its whole struct.
//   - prefix goes before the names in a struct, and help without metric replaces {} in its helps.
func Of[S any](stats func() S, prefix ...string) Collector {
	return newCollector(reader{prefix: strings.Join(prefix, "")}.senderOf(reflect.TypeFor[S]()),
		func() any { return stats() })
}

// OfAny returns a collector like Of, for statistics whose type is not known before they are read: OfAny reads them once
// itself.
func OfAny(stats func() any) Collector {
	return newCollector(reader{}.senderOf(reflect.TypeOf(stats())), stats)
}

func newCollector(send sender, stats func() any) Collector {
	return prometheus.CollectorFunc(func(to chan<- prometheus.Metric) {
		send(scrape{to: to}, reflect.ValueOf(stats()))
	})
}

// sender sends the metrics of a value. Names and helps are made at registration.
type sender func(to scrape, v reflect.Value)

// scrape receives the metrics of one scrape, with the values of their labels.
type scrape struct {
	to     chan<- prometheus.Metric
	labels []string
}

func (s scrape) withLabel(label string) scrape {
	s.labels = append(slices.Clip(s.labels), labelValue(label))
	return s
}

type reader struct {
	prefix, what string // for {} in helps
	label        string // of the keys of a map
	labels       []string
}

// senderOf returns the sender of a type that holds metrics at any depth.
func (r reader) senderOf(t reflect.Type) sender {
	switch t.Kind() {
	case reflect.Pointer:
		inner := r.senderOf(t.Elem())
		return func(to scrape, v reflect.Value) {
			if !v.IsNil() {
				inner(to, v.Elem())
			}
		}
	case reflect.Slice:
		inner := r.senderOf(t.Elem())
		return func(to scrape, v reflect.Value) {
			for i := range v.Len() {
				inner(to, v.Index(i))
			}
		}
	case reflect.Map:
		r.labels = append(slices.Clip(r.labels), r.label)
		return mapSender(r.senderOf(t.Elem()))
	case reflect.Struct:
		return r.structSender(t)
	}
	return func(scrape, reflect.Value) {}
}

func (r reader) structSender(t reflect.Type) sender {
	var labels []int // fields
	var fields []sender
	for i := range t.NumField() {
		f := t.Field(i)
		label := f.Tag.Get("label")
		if label != "" && f.Tag.Get("metric") == "" && f.Type.Kind() == reflect.String {
			labels, r.labels = append(labels, i), append(slices.Clip(r.labels), label)
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		inner, name := r, f.Tag.Get("metric")
		inner.label = f.Tag.Get("label")
		var send sender
		switch {
		case !f.IsExported():
			continue
		case name != "":
			send = inner.metricSender(f.Type, r.prefix+name, strings.ReplaceAll(f.Tag.Get("help"), "{}", r.what))
		default:
			inner.prefix, inner.what = r.prefix+f.Tag.Get("prefix"), f.Tag.Get("help")
			send = inner.senderOf(f.Type)
		}
		fields = append(fields, func(to scrape, v reflect.Value) { send(to, v.Field(i)) })
	}
	return func(to scrape, v reflect.Value) {
		for _, i := range labels {
			to = to.withLabel(v.Field(i).String())
		}
		for _, send := range fields {
			send(to, v)
		}
	}
}

// metricSender returns the sender of a field that is a metric, or of one metric for each key of a map or each reason.
func (r reader) metricSender(t reflect.Type, name, help string) sender {
	if help == "" {
		panic(fmt.Sprintf("metrics: %s has no help", name))
	}
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	byReason := t.Implements(reflect.TypeFor[reasons]())
	if byReason {
		r.label = "reason"
	}
	if r.label != "" {
		r.labels = append(slices.Clip(r.labels), r.label)
	}
	desc := prometheus.NewDesc(name, help, r.labels, nil)
	one := func(to scrape, v reflect.Value) {
		to.to <- prometheus.MustNewConstMetric(desc, kind, numberOf(v), to.labels...)
	}
	switch {
	case byReason:
		return func(to scrape, v reflect.Value) {
			for reason, n := range v.Interface().(reasons).All() {
				one(to.withLabel(reason.String()), reflect.ValueOf(n))
			}
		}
	case t == reflect.TypeFor[guarded.Latency]():
		return func(to scrape, v reflect.Value) { sendHistogram(to, desc, v.Interface().(guarded.Latency)) }
	case t.Kind() == reflect.Map:
		return mapSender(one)
	case t.Kind() == reflect.String:
		return func(to scrape, v reflect.Value) { one(to.withLabel(v.String()), reflect.ValueOf(1)) }
	}
	numberOf(reflect.Zero(t)) // panics at registration, not at a scrape
	return one
}

type reasons interface {
	All() iter.Seq2[hottype.Reason, uint64]
}

// maxNames bounds the number of values of a label from a configuration that are shown.
const maxNames = 100

// mapSender returns a sender of the first maxNames entries of a map, whose keys are a label.
func mapSender(inner sender) sender {
	return func(to scrape, v reflect.Value) {
		entries := map[string]reflect.Value{}
		for key, entry := range v.Seq2() {
			entries[key.String()] = entry
		}
		names := slices.Sorted(maps.Keys(entries))
		for _, name := range names[:min(len(names), maxNames)] {
			inner(to.withLabel(name), entries[name])
		}
	}
}

func sendHistogram(to scrape, desc *prometheus.Desc, l guarded.Latency) {
	cumulative, count := make(map[float64]uint64, len(l.Bounds)), uint64(0)
	for i, n := range l.Counts {
		count += n
		if i < len(l.Bounds) && l.Bounds[i] > 0 { // without a store there are no bounds
			cumulative[l.Bounds[i].Seconds()] = count
		}
	}
	if len(cumulative) > 0 {
		to.to <- prometheus.MustNewConstHistogram(desc, count, l.Sum.Seconds(), cumulative, to.labels...)
	}
}

func numberOf(v reflect.Value) float64 {
	switch x := v.Interface().(type) {
	case time.Time:
		if x.IsZero() {
			return 0
		}
		return float64(x.UnixMilli()) / 1000
	case time.Duration:
		return x.Seconds()
	case bool:
		if x {
			return 1
		}
		return 0
	}
	switch {
	case v.CanUint():
		return float64(v.Uint())
	case v.CanInt():
		return float64(v.Int())
	}
	return v.Float()
}
