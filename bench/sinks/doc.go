// Sinks measures what a request feels of the place that counts are sent to:
// nothing, whatever is wrong with it.
//
//	go run ./sinks [-rounds 3] [-for 8s]
//
// Two visitors send requests for 20,000 topics through the real middleware,
// in bursts with pauses between, while tally flushes ten times a second to
// StatsD or Kafka. The other side is a process of its own that is healthy,
// slow (5 ms a datagram on a unix socket, 200 ms a record), frozen (a socket
// that is never read, a broker that takes records and never confirms them, one
// that takes connections and never says a word), refuses, or has a name that
// no name server tells. In brackets stands the same without counting. A p99 is
// compared with that of the healthy side in the same round.
//
// The heap is how much more is reachable half way and at the end than before.
// Lost is what tally and the sender say that they lost; of datagrams to a UDP
// port without a listener the sender says only how many were refused.
package main
