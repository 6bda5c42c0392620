// Udp compares receivers of StatsD datagrams: hotparam's listener with an
// aggregator behind it, beside prometheus/statsd_exporter and the Node.js
// statsd, each in a process of its own, while this one sends from one core over
// loopback.
//
//	go install github.com/prometheus/statsd_exporter@v0.31.0
//	npm install --prefix ../bin/peers statsd@0.9.0
//	go run ./udp [-rounds 1] [-for 10s] [-exporter statsd_exporter] [-statsd ../bin/peers/node_modules/statsd]
//
// "full" packets hold as many lines as fit into 1432 bytes, "single" ones one
// line. They are sent at the rates to be reached, where what counts is that
// nothing is lost, and as fast as one core can, where what counts is how much of
// it arrives. One load is sent while two more processes do nothing but keep the
// cores busy. The lines name 20,000 different keys.
//
// What a receiver has counted it says itself; what the kernel threw away is in
// /proc/net/udp; CPU is that of the receiver's process. hotparam and
// statsd_exporter ask for a receive buffer of 16 MiB; hotparam gets it where it
// runs with CAP_NET_ADMIN, else both get what net.core.rmem_max allows. statsd
// takes net.core.rmem_default.
package main
