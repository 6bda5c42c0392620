// Package fleet wires the programs that work together through servers (collector, aggregator and limiter-sidecar) with
// their transports and stores. Package program has the parts that run in one process. It compiles without this package,
// because the libraries of Redis, Kafka, etcd and gRPC take most of a first build.
package fleet
