// Package program wires packages into programs: what each program starts, in which
// order its parts stop, and what it says on the way.
//
//	collector        StatsD, mirror, logs ──> tally ──> Kafka or StatsD
//	aggregator       StatsD, Kafka, Graphite ──> aggregate ──> Redis; dashboard
//	limiter-sidecar  decide API, proxy ──> gate <── Redis (hot set, overrides, limits)
//	serve            proxy ──> gate, tally ──> aggregate ──> replica, all in one process
//
// Every long-running part has Run(ctx). [lifecycle.Stages] owns their goroutines and
// stops them from the sources to the sinks, so that nothing received is lost.
package program
