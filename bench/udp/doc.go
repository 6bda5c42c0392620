// Udp compares receivers of StatsD datagrams: hotparam's listener with an aggregator behind it, beside
// prometheus/statsd_exporter and the Node.js statsd, each in a process of its own, while this process sends from one
// core over loopback.
//
//	go install github.com/prometheus/statsd_exporter@v0.31.0
//	npm install --prefix ../bin/_peers statsd@0.9.0
//	go run ./udp [-rounds 1] [-for 10s] [-exporter statsd_exporter] [-statsd ../bin/_peers/node_modules/statsd]
//
// "full" packets hold as many lines as fit into 1432 bytes, "single" packets one line. They are sent at the rates to be
// reached, to see that the receivers lose nothing, and as fast as one core can, to see how much of it arrives. One load
// is sent while two more processes do nothing but keep the cores busy. The lines name 20,000 different keys.
//
// A receiver reports the number of lines that it has counted. The datagrams that the kernel dropped are in
// /proc/net/udp. CPU is the CPU time of the receiver's process. hotparam and statsd_exporter request a receive buffer
// of 16 MiB; hotparam gets it if it runs with CAP_NET_ADMIN, else both get net.core.rmem_max. statsd takes
// net.core.rmem_default.
package main
