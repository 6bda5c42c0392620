// Package metrics renders the statistics of a program for Prometheus. Nothing else
// in the pipeline knows a metrics library: the other packages hand over plain Stats
// structs.
//
//	gate.Stats, redisstore.Stats, … ──> [Collector]s ──> [Registry] ──> GET /metrics
//
// There is one function for each part of a program, such as [Gate]; it names each
// metric, its type, its labels and what it means. A metric keeps its name when a
// field of a Stats struct changes its own, and a field that no metric shows fails a
// test. A part reads its statistics once at each scrape and at its registration.
//
// Labels are bounded: by the rules, by the configuration, or by a list in the code.
// Only [HotKeys], which is off by default, has a label that a client may choose.
package metrics
