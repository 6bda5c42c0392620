// Sinks measures the effect on a request of the place to which counts are sent. There is no effect, whatever the fault
// of that place.
//
//	go run ./sinks [-rounds 3] [-for 8s]
//
// Two visitors send requests for 20,000 topics through the real middleware, in bursts with pauses between, while tally
// flushes ten times a second to StatsD or Kafka. The other side is a process of its own that is healthy, is slow (5 ms
// a datagram on a unix socket, 200 ms a record), is frozen (a socket that is never read, a broker that takes records
// and never confirms them, a broker that takes connections and never replies), refuses, or has a name that no name
// server resolves. The row in brackets is the same without counting. A p99 is compared with the p99 of the healthy side
// in the same round.
//
// The heap is the number of bytes by which more is reachable half way and at the end than before. Lost is the number of
// counts that tally and the sender report as lost. Of datagrams to a UDP port without a listener the sender reports
// only the number refused.
package main
