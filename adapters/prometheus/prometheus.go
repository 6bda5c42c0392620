// Package hotparamprom gives Prometheus the metrics of a pipeline in a Go service. They have the names that the
// programs have (docs/metrics.md), so that the dashboard and the alerts of deploy/ fit.
//
//	prometheus.MustRegister(hotparamprom.NewCollector(p))
//
// Labels are bounded by the rules: keys, which clients choose, are none.
package hotparamprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/pipeline"
)

// NewCollector collects the metrics of p at each scrape. A registry takes one Collector of one pipeline: the metrics of
// a second have the same names, so give it labels (prometheus.WrapRegistererWith).
func NewCollector(p *hotparam.Pipeline) prometheus.Collector {
	var parts []prometheus.Collector
	for _, stats := range pipeline.ReadStats(p) {
		parts = append(parts, metrics.OfAny(stats))
	}
	return prometheus.CollectorFunc(func(to chan<- prometheus.Metric) {
		for _, part := range parts {
			part.Collect(to)
		}
	})
}
