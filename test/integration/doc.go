// Package integration has tests with third-party servers that are too heavy for every run: Apache Kafka on the Java
// virtual machine, statsd before carbon and graphite-web (files chain_*), and Redis and Valkey in the versions of other
// releases of Debian. Programs that this machine's Debian lacks are fetched once, from Maven Central, npm, the Go proxy
// and other releases, and kept in the user's cache folder.
//
//	make integration
//
// They run only with HOTPARAM_REQUIRE_SERVERS=1, and then every program is required: java and mvn have to be installed,
// and for the chain graphite-carbon, graphite-web, uwsgi-core, uwsgi-plugin-python3, nodejs and npm. Every server
// listens on free ports of the loopback address and ends with its test.
package integration
