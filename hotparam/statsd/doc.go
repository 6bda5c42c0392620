// Package statsd writes counts as StatsD counters and reads them back: one
// line "{prefix}.{resource}.hot_param.{component}:{n}|c" for each key. The
// names are package canon's, the wire is described in docs/wire.md.
//
//	tally ──> Sender ──> datagrams of up to 1432 bytes ──> Listener ──> Handle
//	                     UDP, or a unix socket
//
// [Sender] is a sink for package tally. A server that is absent, or a name
// that does not resolve, costs counts and time up to a deadline, never more.
// [Listener] takes datagrams from anybody: what is not a counter of ours is
// ignored, what is broken is counted, nothing is trusted.
//
// StatsD carries no time and no sender. Counts are placed by the second in
// which they arrive, and a lost datagram is lost: that is the bargain. Package
// kafka makes a better one.
package statsd
