// Package hotparamprom exports the metrics of a pipeline in a Go service to Prometheus. They have the names of the
// programs' metrics (docs/metrics.md), so that the dashboard and the alerts of deploy/ fit.
//
//	prometheus.MustRegister(hotparamprom.NewCollector(p))
//
// Labels are bounded by the rules. Keys are not labels, because clients choose them.
package hotparamprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/operator/metrics"
	"github.com/hotparam/pipeline/internal/pipeline"
)

// NewCollector returns a collector that reads the metrics of p at each scrape. A registry takes the collector of one
// pipeline. The metrics of a second pipeline have the same names, so give its collector labels
// (prometheus.WrapRegistererWith).
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
