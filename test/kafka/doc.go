// Package kafka tests producer and consumer of internal/transport/kafka on a broker
// that runs in the test's process. Apache Kafka's own is in package integration.
package kafka
