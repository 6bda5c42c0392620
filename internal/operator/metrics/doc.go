// Package metrics renders the statistics of a program for Prometheus. Nothing else
// in the pipeline knows a metrics library: the other packages hand over plain Stats
// structs.
//
//	gate.Stats, redisclient.Stats, … ──> [Of] ──> [Registry] ──> GET /metrics
//
// A metric is declared where it is counted, by the tags of its field, and [Of] reads
// these. A field that no metric shows fails a test. A part reads its statistics once at
// each scrape and at its registration.
//
// Labels are bounded: by the rules, by the configuration, or by a list in the code.
// Only the rates of hot keys, which are off by default, have a label that a client may choose.
package metrics
