// Package fleet wires the programs that work together through servers: collector, aggregator and limiter-sidecar, with
// their transports and stores. Package program has what runs in one process, and compiles without this package, because
// the libraries of Redis, Kafka, etcd and gRPC take most of a first build.
package fleet
