package admin

import (
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
)

// Gather makes metrics of a Stats function: at each scrape it is called once,
// and each field of the struct that it returns becomes hotparam_<room>_<field>.
//
//	uint64 and other unsigned   counter, with the suffix _total
//	int64, float64, bool, …     gauge
//	time.Duration, time.Time    gauge in seconds, with the suffix _seconds
//	struct                      its fields, after the field's name
//
// A pointer counts as what it points to, a nil one as nothing; other kinds are
// left out, so no text ever becomes a label. The tag `metric` changes a field:
// "-" leaves it out, "gauge" makes an unsigned one a gauge, and anything else is
// its name. The tag `help` is its help text.
func Gather(room string, stats func() any) prometheus.Collector {
	return &gatherer{prefix: "hotparam_" + snake(room), room: room, stats: stats}
}

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
	g.fields(out, g.prefix, reflect.ValueOf(g.stats()))
}

func (g *gatherer) fields(out chan<- prometheus.Metric, prefix string, v reflect.Value) {
	v = pointed(v)
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
		g.field(out, name, f, v.Field(i))
	}
}

func (g *gatherer) field(out chan<- prometheus.Metric, name string, f reflect.StructField, v reflect.Value) {
	v = pointed(v)
	n, ok := valueOf(v)
	if !ok {
		g.fields(out, name, v)
		return
	}
	kind := prometheus.GaugeValue
	switch {
	case n.seconds:
		name = suffixed(name, "_seconds")
	case n.unsigned && f.Tag.Get("metric") != "gauge":
		kind, name = prometheus.CounterValue, suffixed(name, "_total")
	}
	help := f.Tag.Get("help")
	if help == "" {
		help = f.Name + " of " + g.room + "."
	}
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), kind, n.value)
}

// number64 is the value of a field and what kind of thing it counts.
type number64 struct {
	value             float64
	unsigned, seconds bool
}

func valueOf(v reflect.Value) (number64, bool) {
	if !v.IsValid() {
		return number64{}, false
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return number64{value: x.Seconds(), seconds: true}, true
	case time.Time:
		if x.IsZero() {
			return number64{seconds: true}, true
		}
		return number64{value: float64(x.UnixMilli()) / 1000, seconds: true}, true
	}
	switch {
	case v.CanUint():
		return number64{value: float64(v.Uint()), unsigned: true}, true
	case v.CanInt():
		return number64{value: float64(v.Int())}, true
	case v.CanFloat():
		return number64{value: v.Float()}, true
	case v.Kind() == reflect.Bool && v.Bool():
		return number64{value: 1}, true
	case v.Kind() == reflect.Bool:
		return number64{}, true
	}
	return number64{}, false
}

// pointed follows pointers and interfaces; nil gives the invalid value.
func pointed(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

func suffixed(name, suffix string) string {
	if strings.HasSuffix(name, suffix) {
		return name
	}
	return name + suffix
}

// snake writes a Go name as metrics are: DroppedLate is dropped_late, IPFixed
// is ip_fixed. Bytes that a metric's name may not have become "_".
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 {
			afterLower := !unicode.IsUpper(runes[i-1])
			beforeLower := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if (afterLower || beforeLower) && !isGap(runes[i-1]) {
				b.WriteByte('_')
			}
		}
		r = unicode.ToLower(r)
		if isGap(r) {
			r = '_'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// isGap reports whether a metric's name has "_" in place of r.
func isGap(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }
