package metrics

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Collector gives the metrics of one part of a program.
type Collector = prometheus.Collector

// Registry has the metrics of one program and serves them over HTTP. It may be used
// by many goroutines.
type Registry struct {
	http.Handler
	registry *prometheus.Registry
}

// New makes the registry of a program that has these parts; Add takes further ones.
// It has metrics of the Go runtime and of the process too.
func New(namespace, version string, log *slog.Logger, parts ...Collector) *Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry := &Registry{registry: r, Handler: promhttp.HandlerFor(r, promhttp.HandlerOpts{
		// One wrong metric must not hide all the others.
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
		MaxRequestsInFlight: 4,
	})}
	registry.Add(info(namespace, version))
	registry.Add(parts...)
	return registry
}

// Add takes further parts. It panics if two have a metric in common.
func (r *Registry) Add(parts ...Collector) { r.registry.MustRegister(parts...) }

func info(namespace, version string) Collector {
	return collector(func(to scrape) {
		to.with("namespace", namespace).with("version", version).gauge("hotparam_info",
			"Always 1; the labels say which namespace and version this is.", 1)
	})
}

// collector makes a Collector of a function that sends its metrics.
func collector(send func(to scrape)) Collector {
	return prometheus.CollectorFunc(func(to chan<- prometheus.Metric) { send(scrape{to: to}) })
}

// of makes a Collector of statistics and a function that sends them.
func of[S any](stats func() S, send func(scrape, S)) Collector {
	return collector(func(to scrape) { send(to, stats()) })
}

// scrape takes the metrics of one scrape.
type scrape struct {
	to            chan<- prometheus.Metric
	names, values []string // of the labels
}

// with gives a scrape whose metrics have a label more.
func (to scrape) with(label, value string) scrape {
	to.names, to.values = append(slices.Clip(to.names), label), append(slices.Clip(to.values), labelValue(value))
	return to
}

// counter sends what only grows; its name ends in _total.
func (to scrape) counter(name, help string, n uint64) {
	to.send(prometheus.CounterValue, name, help, float64(n))
}

// gauge sends what grows and shrinks.
func (to scrape) gauge(name, help string, value float64) {
	to.send(prometheus.GaugeValue, name, help, value)
}

// flag sends a state that is or is not, as 1 or 0.
func (to scrape) flag(name, help string, on bool) {
	value := 0.0
	if on {
		value = 1
	}
	to.gauge(name, help, value)
}

func (to scrape) send(kind prometheus.ValueType, name, help string, value float64) {
	to.to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, to.names, nil), kind, value, to.values...)
}

// unixSeconds is a time as Prometheus has it, 0 for none.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// maxNames bounds how many values of a label from a configuration are shown.
const maxNames = 100

// each sends the first maxNames entries of m by name, which is a label of their metrics.
func each[V any](to scrape, label string, m map[string]V, send func(scrape, V)) {
	names := slices.Sorted(maps.Keys(m))
	for _, name := range names[:min(len(names), maxNames)] {
		send(to.with(label, name), m[name])
	}
}

// maxLabel is the longest value of a label, in bytes.
const maxLabel = 200

// labelValue makes s printable and cuts it where it is long, with a hash that keeps
// cut ones apart.
func labelValue(s string) string {
	shown := printable(s)
	if len(shown) <= maxLabel {
		return shown
	}
	sum := sha256.Sum256([]byte(s))
	return shown[:maxLabel-17] + "~" + hex.EncodeToString(sum[:8])
}

// printable percent-encodes what is not plain ASCII; keys hold such bytes only in
// paths.
func printable(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
